"""The JSON schema of a study, as an editor uses it."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from places import ROOT

from hargo.config import METHODS, study_schema
from hargo.config.text import read_mapping

SCHEMA = json.loads(study_schema())
LISTED = [name for name in METHODS if name not in ("pretrain", "sft")]


def offered(method: str) -> dict[str, Any]:
    """Option -> what an editor shows of it below `methods.<method>`."""
    methods = SCHEMA["properties"]["methods"]["anyOf"][0]
    reference = methods["properties"][method]["anyOf"][0]["$ref"]
    return SCHEMA["$defs"][reference.removeprefix("#/$defs/")]["properties"]


@pytest.mark.parametrize("name", LISTED)
def test_every_option_of_a_method_is_offered_with_meaning_and_default(name: str) -> None:
    options = offered(name)
    assert set(METHODS[name].options.model_fields) | {"method", "start"} == set(options)
    for key, told in options.items():
        assert told.get("description"), key
        field = METHODS[name].options.model_fields.get(key)
        if field is not None and field.default_factory is None:
            default = field.default
            assert told["default"] == (default.model_dump() if hasattr(default, "model_dump") else default), key


def test_the_project_s_studies_follow_the_schema() -> None:
    for path in sorted((ROOT / "config").glob("*.yaml")):
        jsonschema.validate(read_mapping(path)[0], SCHEMA)


@pytest.mark.parametrize(
    "methods",
    [None, "grpo", ["grpo", "hargo"], {"grpo": None, "mine": {"method": "hargo", "alpha": 1}, "own": {"lift": 2}}],
)
def test_what_a_study_may_say_of_methods_is_allowed(methods: Any) -> None:
    jsonschema.validate({"name": "x", "methods": methods}, SCHEMA)


@pytest.mark.parametrize("methods", [{"hargo": {"alfa": 1}}, {"hargo": {"alpha": "much"}}, {"mine": 3}, 3])
def test_what_is_wrong_of_methods_is_marked(methods: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"name": "x", "methods": methods}, SCHEMA)
