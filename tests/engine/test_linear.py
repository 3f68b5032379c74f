"""Linear layers that compute by other libraries than torch's default: the same numbers and gradients."""

import os
import subprocess
import sys
from copy import deepcopy

import pytest
import tiny
import torch

from hargo import doctor, provenance
from hargo.engine import kernels, linear
from hargo.engine.linear import OneDNN, few_rows, use_onednn
from hargo.engine.pack import Group, pack, score

onednn = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch is built without oneDNN"
)


def by_onednn(model, monkeypatch):
    """The model with all products of its linear layers computed by oneDNN, whatever the processor."""
    monkeypatch.setattr(linear, "processor", lambda: "AMD AVX512")
    monkeypatch.setattr(linear, "by_onednn", lambda *_: True)
    monkeypatch.setattr(linear, "SMALL", 0)
    use_onednn(model)
    return model


@pytest.mark.parametrize("other", [False, pytest.param(True, marks=onednn)])
@pytest.mark.parametrize("rows", [1, 4, 11, 12, 64, 65])
def test_linear_layers_for_few_rows_compute_the_same(rows, other, monkeypatch):
    wide, tall, odd = torch.nn.Linear(700, 960), torch.nn.Linear(960, 601), torch.nn.Linear(601, 999, bias=False)
    model = torch.nn.Sequential(wide, tall, odd)
    x = torch.randn(1, rows, 700)
    with torch.no_grad():
        wanted = model(x)
        if other:
            by_onednn(model, monkeypatch)
        with few_rows(model, 64):
            assert all("forward" in vars(layer) for layer in model)
            torch.testing.assert_close(model(x), wanted, rtol=1e-4, atol=1e-5)
    assert not any("forward" in vars(layer) for layer in model)


@onednn
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(7, 40), (1, 7, 40), (1, 1, 40), (0, 40)])
def test_onednn_layers_compute_values_and_gradients_of_linear_layers(shape, bias, monkeypatch):
    usual = torch.nn.Linear(40, 33, bias=bias)
    other = by_onednn(torch.nn.Sequential(deepcopy(usual)), monkeypatch)
    assert type(other[0]) is OneDNN
    inputs = [torch.randn(shape, generator=torch.Generator().manual_seed(0)).requires_grad_() for _ in range(2)]
    for layer, x in zip((usual, other), inputs, strict=True):
        layer(x).square().sum().backward()
    with torch.no_grad():
        torch.testing.assert_close(other(inputs[0]), usual(inputs[0]), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(inputs[1].grad, inputs[0].grad, rtol=1e-4, atol=1e-4)
    for wanted, found in zip(usual.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(found.grad, wanted.grad, rtol=1e-4, atol=1e-4)


@onednn
def test_onednn_layers_leave_other_types_and_autocast_to_torch(monkeypatch):
    layer = by_onednn(torch.nn.Sequential(torch.nn.Linear(8, 4)), monkeypatch)
    monkeypatch.setattr(linear, "_product", None)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(torch.randn(3, 8)).dtype == torch.bfloat16
    with torch.no_grad(), few_rows(layer, 64), torch.autocast("cpu", torch.bfloat16):
        assert layer(torch.randn(3, 8)).dtype == torch.bfloat16
    assert layer.double()(torch.randn(3, 8, dtype=torch.float64)).dtype == torch.float64


@onednn
@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma2"])
def test_a_model_trains_the_same_by_onednn(family, monkeypatch):
    usual = tiny.model(family)
    other = by_onednn(deepcopy(usual), monkeypatch)
    assert any(type(module) is OneDNN for module in other.modules())
    row = pack([Group([3, 4, 5, 6], [[7, 8, 9], [10, 11]]), Group([3, 4, 12], [[13], [14, 15]])])
    for model in (usual, other):
        score(model, row, 0.6).logp.sum().backward()
    for (name, wanted), found in zip(usual.named_parameters(), other.parameters(), strict=True):
        assert (found.grad - wanted.grad).norm() <= 1e-4 * wanted.grad.norm(), name
    assert other.state_dict().keys() == usual.state_dict().keys()


EVER_NEW_SHAPES = """
import torch
from hargo.engine import linear
from hargo.models.load import keep_memory
linear.processor, linear.by_onednn, linear.SMALL = (lambda: "AMD AVX512"), (lambda *_: True), 0
keep_memory()
layer = torch.nn.Sequential(torch.nn.Linear(256, 512))
linear.use_onednn(layer)

def held():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6

x = torch.randn(2000, 256)
with torch.no_grad():
    for rows in range(1, 2000):
        layer(x[:rows])
        if rows == 200:
            began = held()
print(held() - began)
"""


@onednn
def test_ever_new_numbers_of_rows_do_not_fill_memory_with_onednn_s_programs():
    found = subprocess.run([sys.executable, "-c", EVER_NEW_SHAPES], capture_output=True, text=True, check=True)
    assert float(found.stdout) < 300, "megabytes"


def test_processors_that_were_not_measured_and_small_layers_keep_torch_s_own(monkeypatch):
    for kind, small, swapped in (("Intel AVX512", 0, False), ("AMD AVX512", 33, False), ("AMD AVX512", 0, True)):
        model = torch.nn.Sequential(torch.nn.Linear(8, 4))
        monkeypatch.setattr(linear, "processor", lambda kind=kind: kind)
        monkeypatch.setattr(linear, "SMALL", small)
        use_onednn(model)
        assert (type(model[0]) is OneDNN) == (swapped and kernels.has_onednn())


def test_the_library_is_chosen_by_instruction_set_and_shape():
    """Measured on one Zen 3 thread: MKL for large products of a training pass, oneDNN for a wide output layer."""
    assert not kernels.by_onednn("AMD AVX2", 1200, 576, 1536)
    assert not kernels.by_onednn("AMD AVX2", 1000, 600, 1600)  # the nearest shape that was measured
    assert kernels.by_onednn("AMD AVX2", 1200, 160, 448)
    assert kernels.by_onednn("AMD AVX2", 32, 576, 49152)
    assert kernels.by_onednn("AMD AVX512", 1200, 576, 1536)
    assert not kernels.by_onednn("Intel AVX512", 1200, 576, 1536)  # nothing was measured
    for kind, speeds in kernels.MEASURED.items():
        assert kind in kernels.MACHINES and len({speed[:3] for speed in speeds}) == len(speeds)
        for speed in speeds:
            assert kernels.by_onednn(kind, *speed[:3]) == (speed.onednn > speed.mkl)
            assert kernels.by_onednn(kind, *speed[:3], packed=True) == (speed.packed > speed.mkl)


@onednn
def test_a_layer_follows_the_choice_for_every_number_of_rows(monkeypatch):
    layer = by_onednn(torch.nn.Sequential(torch.nn.Linear(40, 30)), monkeypatch)
    computed = []
    real = linear._product
    monkeypatch.setattr(linear, "_product", lambda *a: computed.append(len(a[0])) or real(*a))
    monkeypatch.setattr(linear, "by_onednn", lambda kind, rows, deep, wide, packed: rows > 4 or packed)
    with torch.no_grad():
        for rows in (3, 5):
            layer(torch.randn(rows, 40))
        assert computed == [5]
        with few_rows(layer, 64):
            layer(torch.randn(3, 40))
        assert computed == [5, 3]


SAY = """
from hargo.engine.kernels import kernels
from hargo.machine import processor
print(processor())
print(kernels())
"""


def test_the_choice_follows_what_the_environment_lets_the_libraries_use():
    def told(**settings):
        environment = {key: value for key, value in os.environ.items() if key != "ONEDNN_MAX_CPU_ISA"}
        command = [sys.executable, "-c", SAY]
        done = subprocess.run(command, env=environment | settings, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    held, words = told(ATEN_CPU_CAPABILITY="default")
    assert held.endswith(" DEFAULT") and words.startswith("torch's own")
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        return
    for settings in ({"ATEN_CPU_CAPABILITY": "avx2"}, {"ONEDNN_MAX_CPU_ISA": "AVX2"}):
        held, words = told(**settings)
        assert held.endswith(" AVX2") and held in words
    assert told(ONEDNN_MAX_CPU_ISA="AVX512_CORE")[0].endswith(" AVX512")


def test_run_records_and_the_doctor_say_what_computes_products():
    assert provenance.record(tiny.study())["kernels"] == kernels.kernels()
    (found,) = [check for check in doctor.checks() if check.name == "Matrix products"]
    assert found.state == "ok" and found.found == kernels.kernels() and "\n" not in found.found
