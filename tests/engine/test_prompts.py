"""What comes next after each of several prompts: the same as after each alone, in whichever way they are read."""

from __future__ import annotations

import pytest
import tiny
import torch

from hargo.engine import apart, prompts
from hargo.engine import capability as capabilities
from hargo.engine.capability import capability
from hargo.engine.prompts import in_a_row, next_logits
from hargo.engine.tryout import Capability

OWN = [[5, 6, 7, 8, 9], [20], [30, 31, 32], [5, 6, 7, 8, 9]]


@pytest.mark.parametrize("family", [*tiny.FAMILIES, "lfm2"])
@pytest.mark.parametrize("shared", [0, 10], ids=["no prefix", "common prefix"])
@pytest.mark.parametrize("way", ["own", "mask", "padded", "alone"])
def test_logits_after_prompts_are_those_of_each_alone(family, shared, way):
    model = tiny.in_full_precision(tiny.model(family, dtype=torch.float64))
    texts = [[*range(40, 40 + shared), *own] for own in OWN]
    can = capability(model)
    if (way == "mask" and not can.packs) or (way == "padded" and not can.pads):
        pytest.skip("it takes no such rows")
    if way == "padded" and family == "gemma2":
        pytest.skip("eager attention adds float64's least number to scores and takes their softmax in float32")
    if way != "own":
        mask = "mask" if way == "mask" else None
        capabilities._OF_MODEL[model] = Capability(mask, scores=True, pads=way == "padded")
    with torch.no_grad():
        alone = torch.cat([model(input_ids=torch.tensor([text])).logits[:, -1] for text in texts])
        for pad in (0, None, 10**9):
            torch.testing.assert_close(next_logits(model, texts, pad), alone, rtol=0, atol=1e-5)


def test_prompts_share_rows_of_bounded_length(monkeypatch):
    model = tiny.model()
    texts = [[*range(40, 60), *own] for own in OWN]
    with torch.no_grad():
        wanted = next_logits(model, texts)
        seen: list[int] = []
        real = apart.read
        monkeypatch.setattr(apart, "read", lambda m, ids, *a, **kw: seen.append(ids.shape[1]) or real(m, ids, *a, **kw))
        for most, rows in ((1000, [34]), (48, [26, 28]), (1, [25, 21, 23, 25])):
            seen.clear()
            monkeypatch.setattr(prompts, "ROW_TOKENS", most)
            torch.testing.assert_close(next_logits(model, texts), wanted, rtol=1e-4, atol=1e-5)
            assert seen == rows


def test_a_row_has_what_all_prompts_begin_with_once():
    row = in_a_row([[*range(40, 50), 5, 6], [*range(40, 50), 7]])
    assert row.ids == [*range(40, 50), 5, 6, 7] and row.positions == [*range(12), 10]
    assert row.layout.prefix == 10 and row.last == [11, 12]
