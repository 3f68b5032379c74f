"""The JSON schema of a study file, from which editors offer keys, values and their meaning."""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import models_json_schema

from hargo.config.methods import METHODS
from hargo.config.registry import MethodSpec
from hargo.config.study import OF_A_RUN, Study

#: what a run says of itself beside its options
_RUN = {
    "method": {"type": "string", "description": "The method that this run is of, under a name of its own."},
    "start": {"type": "string", "description": "The run to start from: base, sft, another run, or pretrain@TOKENS."},
}
assert set(_RUN) == set(OF_A_RUN)


def study_schema() -> str:
    """The JSON schema of a study file, as kept in workflow/schemas/study.schema.json."""
    schema = Study.model_json_schema()
    own = {name: spec for name, spec in METHODS.items() if name in METHODS.own and spec.kind != "groundwork"}
    _, known = models_json_schema([(spec.options, "validation") for spec in own.values()])
    options = known["$defs"]
    for name in {spec.options.__name__ for spec in own.values()}:
        taken = options.pop(name)
        options[f"Run{name}"] = {**taken, "properties": {**_RUN, **taken["properties"]}}
    schema["$defs"] = dict(sorted({**options, **schema["$defs"]}.items()))
    methods = schema["properties"]["methods"]
    methods["properties"] = {name: _run(spec) for name, spec in own.items() if name != "sft"}
    # the options of a run under a name of its own are not known here
    methods["additionalProperties"] = {"type": ["object", "null"], "properties": _RUN}
    names = {"type": "array", "items": {"type": "string"}}
    schema["properties"]["methods"] = {"anyOf": [methods, names, {"type": "string"}, {"type": "null"}]}
    return json.dumps(schema, indent=2) + "\n"


def _run(spec: MethodSpec) -> dict[str, Any]:
    """A run under its method's own name, which may have no key at all."""
    preset = ", ".join(f"{key} = {value}" for key, value in spec.preset.items())
    return {
        "anyOf": [{"$ref": f"#/$defs/Run{spec.options.__name__}"}, {"type": "null"}],
        "title": spec.title,
        "description": spec.title + (f", with {preset}" if preset else ""),
    }
