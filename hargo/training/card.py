"""The model card: README.md in a model's folder, with what made it and a snippet that loads it."""

from __future__ import annotations

from typing import Any

from hargo import __version__
from hargo.config import Study
from hargo.config.runs import Run
from hargo.models.encode import prompt_text

QUESTION = "hargo-question"

CARD = """\
---
library_name: transformers
pipeline_tag: text-generation
tags: [hargo]
---

# {title}

Trained by hargo {version}: run `{run}` ({method}) of the study `{study}`, seed {seed}, from {start}, on {data}.
`run.json` beside this folder has every option, version, seed and revision.

Tasks: {tasks}. What the answers are worth, and what they are not, is in the study's report.

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

folder = "."  # the folder of this file
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder)
question = "Does this OpenMP program have a data race? Answer yes or no."
prompt = {before} + question + {after}  # as in training
ids = tokenizer(prompt, add_special_tokens={special}, return_tensors="pt")["input_ids"]
answer = model.generate(ids, max_new_tokens=64, do_sample=False)
print(tokenizer.decode(answer[0, ids.shape[1] :], skip_special_tokens=True))
```
"""


def card(study: Study, run: Run, seed: int, tokenizer: Any) -> str:
    """The card's text: a function of the study and the run alone, so that a run made again has the same."""
    before, _, after = prompt_text(tokenizer, QUESTION, study.model).partition(QUESTION)
    model, data = study.model, study.data
    base = f"the base model {model.path}" if model.path else "a small model built from scratch"
    return CARD.format(
        title=f"{study.name}: {run.spec.title}, seed {seed}",
        version=__version__,
        run=run.name,
        method=run.spec.title,
        study=study.name,
        seed=seed,
        start=base if run.start.run is None else f"the run `{run.start}`, which goes back to {base}",
        data=f"rows of {data.path} (source {data.source})" if data.path else f"rows of the source {data.source}",
        tasks=", ".join(study.tasks),
        before=repr(before),
        after=repr(after),
        special=not tokenizer.chat_template,
    )
