"""Code from outside the package: what a study names beside itself, and what installed packages offer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import outside
import pytest
import yaml
from places import ROOT
from refused import SCRATCH

from hargo import tasks
from hargo.cli.methods import description, listing
from hargo.config import METHODS, Study, load_study, study_from
from hargo.config.code import stage_code
from hargo.doctor import checks
from hargo.errors import UserError


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    with outside.forgotten():
        yield


STUDY: dict[str, Any] = {
    "name": "own",
    "extend": outside.EXTEND,
    "data": {"source": "words"},
    "pretrain": {},
    "methods": {"grpo": None, "lifted": {"lift": 0.5}, "still": None, "twice": {"method": "lifted"}},
}


def written(folder: Path, study: dict[str, Any] = STUDY) -> Path:
    """A study beside its modules."""
    outside.write(folder)
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(study))
    return path


def refused(folder: Path, files: dict[str, str], **extend: dict[str, str]) -> str:
    """What a study beside these files is told about its section `extend`."""
    outside.write(folder, files)
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump({**SCRATCH, "extend": extend}))
    with pytest.raises(UserError) as caught:
        load_study(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_names_of_the_study_are_as_good_as_hargo_s_own(tmp_path: Path) -> None:
    study = load_study(written(tmp_path))
    assert study.tasks == ["shout"] and tasks.load("shout").title == "Shouting"
    runs = study.runs()
    assert runs["lifted"].spec.title == "Lifted GRPO" and runs["twice"].spec.kind == "ablation"
    assert runs["lifted"].options.model_dump()["lift"] == 0.5 and runs["still"].trainer.data == "nothing"
    assert "lifted  (Lifted GRPO)\n    GRPO with lifted advantages." in listing()
    assert "lift " in description("lifted") and "Added to every advantage." in description("lifted")
    for wrong, told in (
        ({"methods": {"liftd": None}}, "unknown method 'liftd'; did you mean 'lifted'?"),
        ({"tasks": ["shuot"]}, "unknown task 'shuot'; did you mean 'shout'?"),
        ({"methods": {"lifted": {"lift": -1}}}, "methods.lifted.lift: Input should be greater than or equal to 0"),
        ({"rl": {"lift": 1}}, "it belongs to methods.lifted"),
        ({"sweep": {"lifted": {"lif": [1]}}}, "did you mean 'lift'?"),
    ):
        with pytest.raises(UserError) as caught:
            study_from({**study.model_dump(mode="json"), **wrong}, "x")
        assert told in str(caught.value)


def test_a_study_without_the_names_does_not_have_them(tmp_path: Path) -> None:
    plain = study_from({**SCRATCH, "methods": {"grpo": None}}, "x")
    with pytest.raises(UserError, match="unknown method 'lifted'"):
        study_from({**SCRATCH, "methods": {"lifted": None}}, "x")
    load_study(written(tmp_path))
    assert study_from({**SCRATCH, "methods": {"grpo": None}}, "x") == plain


def test_jobs_find_the_modules_from_the_resolved_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a new process, as on a cluster; without torch, which the loss imports."""
    written(tmp_path / "mine")
    code = (
        "import sys; from pathlib import Path; from hargo.cli.common import write_study\n"
        "from hargo.config import load_study; from hargo.config.code import stage_code\n"
        "study = load_study(sys.argv[1]); write_study(study, Path('results/own/study.yaml'))\n"
        "print(study.extend.folders, *stage_code(study, 'train', 'lifted'), 'torch' in sys.modules)"
    )
    for file in ("mine/study.yaml", "results/own/study.yaml"):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", code, file], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("['mine'] ") and "lifted_loss.py" in done.stdout and "False" in done.stdout


def test_code_outside_counts_for_what_uses_it(tmp_path: Path) -> None:
    study = load_study(written(tmp_path, {**STUDY, "rl": {"sampler": {"backend": "echo"}}}))
    used = {
        (stage, run): {file for file in stage_code(study, stage, run) if not file.startswith("hargo/")}
        for stage, run in [("data", None), ("evaluate", None), ("report", None), ("model", None)]
        + [("train", run) for run in study.runs()]
    }
    assert used["data", None] == {"words.py"} and used["model", None] == set()
    assert used["evaluate", None] == {"shout.py", "echo.py"} and used["report", None] == {"shout.py", "echo.py"}
    assert used["train", "grpo"] == used["train", "sft"] == {"shout.py", "echo.py"}
    assert used["train", "lifted"] == used["train", "twice"] == {"shout.py", "echo.py", "lifted.py", "lifted_loss.py"}
    assert used["train", "still"] == {"shout.py", "echo.py", "still_training.py"}


def test_code_is_followed_into_helpers_beside_the_study(tmp_path: Path) -> None:
    path = written(tmp_path)
    outside.write(
        tmp_path,
        {
            "lifted_loss.py": outside.LOSS + "\nimport helpers.deep, unused_here\n",
            "helpers/__init__.py": "",
            "helpers/deep.py": "from . import words\nfrom .numbers import ONE\nimport torch\nimport yaml\n",
            "helpers/words.py": "raise SystemExit('imported')\n",
            "helpers/numbers.py": "ONE = 1\n",
        },
    )
    found = {file for file in stage_code(load_study(path), "train", "lifted") if not file.startswith("hargo/")}
    helpers = {f"helpers/{name}.py" for name in ("__init__", "deep", "words", "numbers")}
    assert found == {"shout.py", "lifted.py", "lifted_loss.py"} | helpers


BROKEN = "import os\n\n\ndef deeper():\n    return 1 / 0\n\n\ndeeper()\n"


@pytest.mark.parametrize(
    ("files", "extend", "told"),
    [
        (
            {"mytask.py": ""},
            {"tasks": {"x": "my_task:TASK"}},
            "no module 'my_task' in {at} or on Python's path; did you mean 'mytask'?",
        ),
        (
            {"a.py": "TASKK = 1"},
            {"tasks": {"x": "a:TASK"}},
            "unknown name in a ({at}/a.py) 'TASK'; did you mean 'TASKK'?",
        ),
        ({"a.py": "TASK = {}"}, {"tasks": {"x": "a:TASK"}}, "a:TASK is a dict, not a Task"),
        ({"a.py": ""}, {"tasks": {"x": "a"}}, "a is a module, not a Task; name the Task in it: a:TASK"),
        ({"a.py": outside.TASK}, {"tasks": {"x": "a:TASK"}}, "a:TASK is called 'shout'; name it so, or"),
        (
            {"a.py": outside.TASK},
            {"tasks": {"mlperf": "a:TASK"}},
            "hargo has a task 'mlperf' of its own; choose another name",
        ),
        (
            {"a.py": BROKEN},
            {"tasks": {"x": "a:TASK"}},
            "{at}/a.py, line 5: importing a fails: ZeroDivisionError: division by zero",
        ),
        ({"a.py": "import b", "b.py": BROKEN}, {"tasks": {"x": "a:TASK"}}, "{at}/b.py, line 5: importing a fails"),
        (
            {"a.py": "import nothing_of_it"},
            {"tasks": {"x": "a:TASK"}},
            "{at}/a.py, line 1: importing a fails: ModuleNotFoundError",
        ),
        ({"a.py": "x = (\n"}, {"tasks": {"x": "a:TASK"}}, "{at}/a.py, line 1: '(' was never closed"),
        (
            {"a.py": "import sys; sys.exit(3)"},
            {"tasks": {"x": "a:TASK"}},
            "{at}/a.py, line 1: importing a fails: SystemExit: 3",
        ),
        (
            {"code.py": outside.TASK},
            {"tasks": {"shout": "code:TASK"}},
            "{at}/code.py is hidden by another module 'code'",
        ),
        ({}, {"tasks": {"x": "mine/a.py:TASK"}}, "write MODULE:NAME, such as my_task:TASK"),
        ({}, {"tasks": {"x": "a.py:TASK"}}, "write MODULE:NAME, such as my_task:TASK"),
        ({"a.py": outside.TASK}, {"tasks": {"a b": "a:TASK"}}, "'a b' cannot name a task"),
        ({"a.py": ""}, {"sources": {"x": "a"}}, "unknown name in a ({at}/a.py) 'load'"),
        ({"a.py": "load = 3"}, {"sources": {"x": "a"}}, "`load` of a is no function"),
        ({}, {"samplers": {"x": "nowhere"}}, "no module 'nowhere'"),
        ({"a.py": outside.METHOD}, {"methods": {"x": "a:METHOD"}}, "no module 'lifted_loss'"),
        ({"a.py": outside.TRAINER, "still_training.py": ""}, {"methods": {"x": "a:METHOD"}}, "unknown trainer 'still'"),
        (
            {"a.py": outside.METHOD},
            {"methods": {"x": "a:LiftedOptions"}},
            "a:LiftedOptions is a class, not a MethodSpec",
        ),
        (
            {"a.py": outside.METHOD.replace(", LiftedOptions)", ", dict)"), "lifted_loss.py": ""},
            {"methods": {"x": "a:METHOD"}},
            "the options of a:METHOD",
        ),
        ({}, {"task": {"x": "a:TASK"}}, "unknown key in extend 'task'; did you mean 'tasks'?"),
    ],
)
def test_code_that_cannot_be_used_is_one_line(
    tmp_path: Path, files: dict[str, str], extend: dict[str, dict[str, str]], told: str
) -> None:
    text = refused(tmp_path, files, **extend)
    shown = os.path.relpath(tmp_path) if "no module" in told else str(tmp_path)
    assert told.format(at=shown) in text
    assert text.startswith(f"{tmp_path / 'study.yaml'}, line ") and "extend" in text


def test_two_studies_that_disagree_on_a_name_are_not_mixed_up(tmp_path: Path) -> None:
    load_study(written(tmp_path / "one"))
    outside.write(tmp_path / "two", {"other.py": outside.TASK})
    path = tmp_path / "two" / "study.yaml"
    path.write_text(yaml.safe_dump({**SCRATCH, "extend": {"tasks": {"shout": "other:TASK"}}}))
    with pytest.raises(UserError, match="'shout' is shout:TASK in another study"):
        load_study(path)


def test_nothing_is_imported_that_the_study_does_not_name(tmp_path: Path) -> None:
    outside.write(tmp_path, {"evil.py": "raise SystemExit('imported')"})
    load_study(written(tmp_path))
    assert "evil" not in sys.modules and "still_training" not in sys.modules and "echo" not in sys.modules
    (tmp_path / "plain.yaml").write_text(yaml.safe_dump({**SCRATCH, "name": "plain"}))
    sys.path.remove(str(tmp_path))
    load_study(tmp_path / "plain.yaml")
    assert str(tmp_path) not in sys.path


POINTS = {
    "hargo.tasks": {"shout": "shout:TASK", "broken": "broken:TASK", "mlperf": "shout:TASK"},
    "hargo.sources": {"words": "words"},
    "hargo.methods": {"lifted": "lifted:METHOD", "gone": "nowhere:METHOD"},
}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of Python's path with a package that has entry points."""
    site = outside.install(tmp_path, "ourlab", POINTS)
    outside.write(site, {"broken.py": BROKEN})
    monkeypatch.syspath_prepend(site)
    return site


def study(**sections: Any) -> Study:
    return study_from({**SCRATCH, "data": {"source": "words"}, **sections}, "x")


def test_names_of_an_installed_package_need_no_word_in_the_study(installed: Path) -> None:
    found = study(methods={"lifted": {"lift": 1}})
    assert found.tasks == ["shout"] and found.runs()["lifted"].spec.title == "Lifted GRPO"
    assert {"lifted.py", "lifted_loss.py", "shout.py"} <= set(stage_code(found, "train", "lifted"))
    assert "broken" not in sys.modules
    with pytest.raises(UserError, match="unknown method 'liftd'; did you mean 'lifted'"):
        study(methods={"liftd": None})


def test_hargo_s_own_names_stay_its(installed: Path) -> None:
    assert tasks.load("mlperf").name == "mlperf"
    told = {check.found: check.state for check in checks() if check.name == "Extension"}
    assert told["task 'mlperf' of ourlab 1.0 is not used: hargo has one of its own"] == "optional"
    assert told["method lifted: lifted:METHOD"] == "ok"
    assert any("no module 'nowhere'" in found and state == "optional" for found, state in told.items())


def test_an_entry_point_that_fails_is_one_line_and_hides_no_other(installed: Path) -> None:
    with pytest.raises(UserError) as caught:
        study(tasks=["broken"])
    at = f"task 'broken' of the installed package ourlab 1.0: {installed}/broken.py, line 5"
    assert f"x: tasks: {at}: importing broken fails: ZeroDivisionError" in str(caught.value)
    with pytest.raises(UserError, match=r"method 'gone' of the installed package ourlab 1\.0: no module 'nowhere'"):
        study(methods={"gone": None})
    assert "lifted  (Lifted GRPO)" in listing() and "no module 'nowhere'" in listing()


def test_two_packages_with_one_name_are_not_mixed_up(installed: Path) -> None:
    outside.install(installed, "theirlab", {"hargo.tasks": {"shout": "shout:TASK"}})
    with pytest.raises(UserError, match=r"ourlab 1\.0 and theirlab 1\.0 both have one of this name"):
        study(tasks=["shout"])


def test_the_study_s_name_goes_before_that_of_a_package(installed: Path) -> None:
    outside.write(installed / "mine", {"other.py": outside.METHOD.replace("Lifted GRPO", "Mine")})
    section = {"methods": {"lifted": "other:METHOD"}, "folders": [str(installed / "mine")]}
    study(extend=section, methods={"lifted": None})
    assert METHODS["lifted"].title == "Mine"


def test_the_command_line_knows_installed_packages_and_a_study_s_methods(tmp_path: Path) -> None:
    site = outside.install(tmp_path / "site", "ourlab", {"hargo.methods": {"lifted": "lifted:METHOD"}})
    outside.write(tmp_path / "mine", {"raised.py": outside.METHOD})
    own = {**SCRATCH, "extend": {"methods": {"raised": "raised:METHOD"}}}
    (tmp_path / "mine" / "study.yaml").write_text(yaml.safe_dump(own))

    def hargo(*arguments: str) -> str:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{site}"}
        command = [sys.executable, "-m", "hargo", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True).stdout

    assert "lifted  (Lifted GRPO)" in hargo("methods")
    assert "raised  (Lifted GRPO)" in hargo("methods", "raised", "--config", "mine/study.yaml")
    assert "lifted" not in hargo("methods", "--markdown")


def test_a_record_beside_a_model_runs_no_code(tmp_path: Path) -> None:
    """A model may come from anyone; what it says of itself is data."""
    from hargo.evaluation.check import study_of

    found = load_study(written(tmp_path / "mine"))
    (tmp_path / "model").mkdir()
    (tmp_path / "run.json").write_text(json.dumps({"study": found.model_dump(mode="json")}))
    with pytest.raises(UserError, match="if you trust it, give the study with --config"):
        study_of(tmp_path / "model")
    (tmp_path / "run.json").write_text(json.dumps({"study": {"name": "odd", "extend": ["my_task:TASK"]}}))
    with pytest.raises(UserError, match="if you trust it, give the study with --config"):
        study_of(tmp_path / "model")
