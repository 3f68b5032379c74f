"""Linear layers that compute by other libraries than torch's default: the same numbers and gradients."""

import subprocess
import sys
from copy import deepcopy

import pytest
import tiny
import torch

from hargo.models import linear
from hargo.models.linear import OneDNN, few_rows, use_onednn
from hargo.training.pack import Group, pack, score

onednn = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch is built without oneDNN"
)


def on_amd(model, monkeypatch, processor="AMD EPYC"):
    monkeypatch.setattr(linear, "cpu_model", lambda: processor)
    monkeypatch.setattr(linear, "SMALL", 0)
    use_onednn(model)
    return model


@pytest.mark.parametrize("amd", [False, pytest.param(True, marks=onednn)])
@pytest.mark.parametrize("rows", [1, 4, 11, 12, 64, 65])
def test_linear_layers_for_few_rows_compute_the_same(rows, amd, monkeypatch):
    wide, tall, odd = torch.nn.Linear(700, 960), torch.nn.Linear(960, 601), torch.nn.Linear(601, 999, bias=False)
    model = torch.nn.Sequential(wide, tall, odd)
    x = torch.randn(1, rows, 700)
    with torch.no_grad():
        wanted = model(x)
        if amd:
            on_amd(model, monkeypatch)
        with few_rows(model, 64):
            assert all("forward" in vars(layer) for layer in model)
            torch.testing.assert_close(model(x), wanted, rtol=1e-4, atol=1e-5)
    assert not any("forward" in vars(layer) for layer in model)


@onednn
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(7, 40), (1, 7, 40), (1, 1, 40), (0, 40)])
def test_onednn_layers_compute_values_and_gradients_of_linear_layers(shape, bias, monkeypatch):
    usual = torch.nn.Linear(40, 33, bias=bias)
    other = on_amd(torch.nn.Sequential(deepcopy(usual)), monkeypatch)
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
    layer = on_amd(torch.nn.Sequential(torch.nn.Linear(8, 4)), monkeypatch)
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
    other = on_amd(deepcopy(usual), monkeypatch)
    assert any(type(module) is OneDNN for module in other.modules())
    row = pack([Group([3, 4, 5, 6], [[7, 8, 9], [10, 11]]), Group([3, 4, 12], [[13], [14, 15]])])
    for model in (usual, other):
        score(model, row, 0.6).logp.sum().backward()
    for (name, wanted), found in zip(usual.named_parameters(), other.parameters(), strict=True):
        assert (found.grad - wanted.grad).norm() <= 1e-4 * wanted.grad.norm(), name
    assert other.state_dict().keys() == usual.state_dict().keys()


EVER_NEW_SHAPES = """
import torch
from hargo.models import linear
from hargo.models.load import keep_memory
linear.cpu_model, linear.SMALL = (lambda: "AMD EPYC"), 0
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


def test_other_processors_and_small_layers_keep_torch_s_own(monkeypatch):
    model = torch.nn.Sequential(torch.nn.Linear(8, 4))
    assert type(on_amd(model, monkeypatch, "Intel(R) Xeon(R) Processor")[0]) is torch.nn.Linear
    monkeypatch.setattr(linear, "cpu_model", lambda: "AMD EPYC")
    monkeypatch.setattr(linear, "SMALL", 33)
    use_onednn(model)
    assert type(model[0]) is torch.nn.Linear
