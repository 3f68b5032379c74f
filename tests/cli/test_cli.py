"""The command line: quick to start, one-line errors, and settings that reach the process."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT
from typer.testing import CliRunner

from hargo import provenance
from hargo.cli import app, home, profiles
from hargo.cli.common import overrides
from hargo.config import load_study
from hargo.errors import UserError
from hargo.machine import available_cores

DEMO = str(ROOT / "config" / "demo.yaml")
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES")


def hargo(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hargo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env={**os.environ, **environment})


def error_line(done: subprocess.CompletedProcess[str]) -> str:
    """The one line on standard error of a run that failed through the user's fault."""
    assert done.returncode == 2, done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), done.stderr
    return lines[0]


def test_help_is_quick() -> None:
    """In processor time, since other processes share the machine; the best of a few runs."""
    times = []
    for _ in range(4):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert hargo("--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < 0.5


def test_help_imports_no_torch() -> None:
    code = (
        "import sys, hargo.cli\nsys.argv = ['hargo', 'train', '--help']\n"
        "try: hargo.cli.main()\nexcept SystemExit as end: assert not end.code\n"
        "assert not {'torch', 'transformers', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize(
    "command",
    [
        *("train", "preferences", "evaluate", "baselines", "report", "doctor"),
        *("config check", "config schema", "config resolve", "data prefetch", "data build", "data audit"),
        *("model prefetch", "model prepare"),
    ],
)
def test_every_command_explains_itself(command: str) -> None:
    done = CliRunner().invoke(app, [*command.split(), "--help"], prog_name="hargo")
    assert done.exit_code == 0 and f"Usage: hargo {command}" in " ".join(done.output.split())


def test_usage_errors_exit_with_2() -> None:
    assert hargo("train").returncode == 2
    assert hargo("nonsense").returncode == 2


def test_user_errors_are_one_line(tmp_path: Path) -> None:
    assert "did you mean 'max_steps'" in error_line(hargo("config", "check", DEMO, "--set", "rl.max_stps=3"))
    assert "no.yaml: cannot be read" in error_line(hargo("config", "check", "no.yaml"))
    assert "write KEY=VALUE" in error_line(hargo("config", "check", DEMO, "--set", "seeds"))
    assert "either --config FILE, or --source" in error_line(hargo("data", "audit", "--out", str(tmp_path / "x")))
    done = hargo("data", "audit", "--source", "hpcgp", "--out", str(tmp_path / "x"))
    assert "did you mean 'hpcgpt'" in error_line(done)
    assert "needs --path" in error_line(hargo("data", "audit", "--source", "hpcgpt", "--out", str(tmp_path / "x")))
    assert not (tmp_path / "x").exists()
    (tmp_path / "file").write_text("")
    done = hargo("config", "resolve", "--config", DEMO, "--out", str(tmp_path / "file" / "study.yaml"))
    assert "cannot be created as a folder" in error_line(done)


def test_a_method_outside_the_study_is_refused_before_anything_starts(tmp_path: Path) -> None:
    folders = [f"--{name}={tmp_path / name}" for name in ("model", "data", "out", "checkpoints")]
    done = hargo("train", "grp", "--config", DEMO, "--seed", "0", *folders)
    assert "unknown run of this study 'grp'; did you mean 'grpo'?" in error_line(done)
    assert list(tmp_path.iterdir()) == []


def test_other_errors_keep_their_traceback() -> None:
    code = (
        "import sys, hargo.cli, hargo.config\n"
        "hargo.config.load_study = None  # a fault in the program, as opposed to the input\n"
        f"sys.argv = ['hargo', 'config', 'check', {DEMO!r}]; hargo.cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and "Traceback" in done.stderr and "TypeError" in done.stderr


def test_resolve_states_every_default_and_reads_json_from_a_pipe(tmp_path: Path) -> None:
    out = tmp_path / "new" / "study.yaml"
    study = json.dumps({"name": "piped", "data": {"protocol": "given"}, "pretrain": {"steps": 3}})
    command = [sys.executable, "-m", "hargo", "config", "resolve", "--config", "/dev/stdin", "--out", str(out)]
    done = subprocess.run([*command, "--set", "rl.beta=0.5"], input=study, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    resolved = yaml.safe_load(out.read_text())
    assert resolved["pretrain"]["steps"] == 3 and resolved["rl"]["beta"] == 0.5 and resolved["sft"]["epochs"] == 2
    before = out.stat().st_mtime_ns
    assert subprocess.run([*command, "--set", "rl.beta=0.5"], input=study, text=True).returncode == 0
    assert out.stat().st_mtime_ns == before, "an unchanged study must not look changed"


@pytest.mark.parametrize(
    ("sets", "result"),
    [
        (["rl.max_steps=5"], {"rl": {"max_steps": 5}}),
        (["rl.max_steps=5", "rl.beta=0", "seeds=[1, 2]"], {"rl": {"max_steps": 5, "beta": 0}, "seeds": [1, 2]}),
        (["model.path=a/b=c"], {"model": {"path": "a/b=c"}}),
        (["sft.max_steps=null", "name="], {"sft": {"max_steps": None}, "name": None}),
    ],
)
def testoverrides(sets: list[str], result: dict) -> None:
    assert overrides(sets) == result


@pytest.mark.parametrize(
    ("argument", "expanded"),
    [
        ("~/x", "/home/me/x"),
        ("--out=~/x", "/home/me/x"),
        ("a/~/x", None),
        ("x~/y", None),
        ("rl.max_steps=~", None),  # of --set: null
    ],
)
def test_the_home_folder_is_expanded_where_a_shell_does_not(
    argument: str, expanded: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert home(argument) == (argument if expanded is None else argument.replace("~/x", expanded))


def test_a_study_below_the_home_folder_is_found_and_one_with_a_key_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("name: x\npretrain: {}\nrl: {beta: 1}\nrl: {}\n")
    line = error_line(hargo("config", "resolve", "--config=~/study.yaml", "--out=~/out.yaml", HOME=str(tmp_path)))
    assert f"{tmp_path}/study.yaml, line 4: the key 'rl' is repeated here (first on line 3)" in line


@given(st.text(), st.text())
def test_overrides_never_fail_but_for_a_reason(key: str, value: str) -> None:
    try:
        assert isinstance(overrides([f"{key}={value}"]), dict)
    except UserError as error:
        assert "--set" in str(error)


def threads_set(threads: int, cores: int, given: dict[str, str]) -> dict[str, str]:
    """The thread variables that a process confined to so many cores ends up with."""
    code = (
        f"import os; os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:{cores}])\n"
        f"from hargo.machine import bind_threads; bind_threads({threads})\n"
        f"print({{name: os.environ[name] for name in {THREADS!r} if name in os.environ}})"
    )
    environment = {name: value for name, value in os.environ.items() if name not in THREADS} | given
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return yaml.safe_load(done.stdout)


@pytest.mark.skipif(available_cores() < 2, reason="needs two cores")
def test_threads_are_bound_only_when_the_process_has_all_cores() -> None:
    bound = {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "OMP_PROC_BIND": "true", "OMP_PLACES": "cores"}
    assert threads_set(2, cores=2, given={}) == bound
    assert threads_set(1, cores=2, given={}) == {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    assert threads_set(1, cores=1, given={}) == {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@pytest.mark.skipif(available_cores() < 2, reason="needs two cores")
def test_threads_the_user_has_set_stay() -> None:
    given = {"OMP_NUM_THREADS": "7", "OMP_PROC_BIND": "false"}
    found = threads_set(2, cores=2, given=given)
    assert found == {**given, "MKL_NUM_THREADS": "2", "OMP_PLACES": "cores"}


def test_report_show_prints_the_headline_of_a_finished_report(tmp_path: Path) -> None:
    (tmp_path / "summary.csv").write_text("method,title,win_rate_mean,win_rate_std\nhargo,HARGO,54.625,\n")
    done = hargo("report", "--show", "--config", DEMO, "--out", str(tmp_path))
    assert done.returncode == 0 and re.search(r"HARGO +54\.6", done.stdout), done.stderr
    assert str(tmp_path / "report.html") in done.stdout.replace("\n", "")
    assert "summary.csv" in error_line(hargo("report", "--show", "--config", DEMO, "--out", str(tmp_path / "none")))


def test_doctor_fails_only_for_what_is_needed(tmp_path: Path) -> None:
    done = hargo("doctor", "--config", DEMO)
    assert done.returncode == 0 and "everything needed is here" in done.stdout, done.stdout
    study = tmp_path / "study.yaml"
    study.write_text("name: x\ndata: {source: hpcgpt, path: nowhere}\npretrain: {}\n")
    done = hargo("doctor", "--config", str(study))
    line = next(line for line in done.stdout.splitlines() if line.startswith("Data"))
    assert done.returncode == 1 and "missing" in line and "nowhere" in line


@pytest.mark.parametrize(
    ("gres", "types"),
    [
        ("gpu:nvidia_a100-sxm4-80gb:4(S:0-1)", ["nvidia_a100-sxm4-80gb"]),
        ("gpu:h100.pcie:2(S:0,1),gpu:2g.10gb:3(S:0-1,3)", ["h100.pcie", "2g.10gb"]),
        ("gpu:4090:8", ["4090"]),
        ("gpu:2", [""]),
        ("shard:8,mps:gpu:2,gpu:v100:1(IDX:0)", ["v100"]),
        ("(null)", []),
    ],
)
def test_gpu_types_of_every_spelling_are_found(gres: str, types: list[str]) -> None:
    assert profiles.gpu_types(gres) == types


def test_a_script_is_shown_where_there_is_no_slurm(tmp_path: Path) -> None:
    (tmp_path / "bash").symlink_to("/bin/bash")
    done = hargo("slurm", "script", "train", PATH=str(tmp_path))
    assert done.returncode == 0 and "#SBATCH --job-name=train" in done.stdout and "wckey" not in done.stdout, (
        done.stderr
    )


def test_provenance_says_what_decided_a_result() -> None:
    study = load_study(DEMO)
    run = provenance.record(study, seed=3, options=study.method("hargo"), model=Path("a/b"), threads=5)
    run = json.loads(json.dumps(run))
    assert run["study"] == study.model_dump(mode="json")
    assert (run["seed"], run["options"]["alpha"], run["model"], run["threads"]) == (3, 0.3, "a/b", 5)
    assert run["versions"]["hargo"] and run["versions"]["torch"] and run["wall_seconds"] >= 0


def test_provenance_knows_the_revision_of_its_own_checkout(tmp_path: Path) -> None:
    code = "from hargo import provenance; import json; print(json.dumps(provenance.git_revision()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    revision = json.loads(done.stdout)
    if not (ROOT / ".git").exists():
        assert revision is None
        return
    head = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    assert revision["revision"] == head.stdout.strip() and isinstance(revision["dirty"], bool)


RECORD = "from hargo import provenance; import json; print(json.dumps(provenance.checkout()))"


def recorded(package: Path = ROOT, **environment: str) -> dict:
    """What a run of the package in a folder, with these variables, would say of its revision."""
    changed = {**os.environ, "PYTHONPATH": str(package), **environment}
    command = [sys.executable, "-c", RECORD]
    return json.loads(subprocess.run(command, capture_output=True, check=True, cwd=package, env=changed).stdout)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a git checkout")
def test_provenance_is_not_led_astray_by_another_repositorys_hook(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "other"], check=True)
    other = str(tmp_path / ".git")
    expected = recorded()
    assert expected["revision"]
    assert recorded(GIT_DIR=other) == expected
    assert recorded(GIT_DIR=other, GIT_WORK_TREE=str(tmp_path), GIT_INDEX_FILE=f"{other}/index") == expected
    assert recorded(GIT_COMMON_DIR=other, GIT_OBJECT_DIRECTORY=f"{other}/objects", GIT_PREFIX="a/") == expected
    assert recorded(GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="core.worktree", GIT_CONFIG_VALUE_0="/") == expected


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a git checkout")
def test_a_missing_revision_has_a_reason(tmp_path: Path) -> None:
    assert "git" in recorded(PATH=str(tmp_path))["reason"]
    broken = tmp_path / "git"
    broken.write_text("#!/bin/sh\necho fatal: detected dubious ownership >&2; exit 128\n")
    broken.chmod(0o755)
    assert recorded(PATH=str(tmp_path)) == {"reason": "git rev-parse: fatal: detected dubious ownership"}


def test_a_package_copied_into_another_repository_has_no_revision(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "hargo", tmp_path / "hargo", ignore=shutil.ignore_patterns("__pycache__"))
    assert "not a git checkout" in recorded(tmp_path)["reason"]
    (tmp_path / ".git").mkdir()  # damaged: git would look further up
    assert "revision" not in recorded(tmp_path)
    (tmp_path / ".git").rmdir()
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert "does not hold this package" in recorded(tmp_path)["reason"]


def test_importing_provenance_starts_no_program(tmp_path: Path) -> None:
    git = tmp_path / "git"
    git.write_text(f"#!/bin/sh\ntouch {tmp_path}/called\n")
    git.chmod(0o755)
    code = "import hargo.provenance, hargo.cli, hargo.doctor"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert not (tmp_path / "called").exists()


def test_what_the_environment_decides_is_recorded_and_secrets_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {
        "PYTHONHASHSEED": "7",
        "HF_HOME": "/x",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "LC_ALL": "C",
        "MKL_CBWR": "1",
    }
    for name, value in {**told, "HF_TOKEN": "hf_secret", "UNRELATED": "1"}.items():
        monkeypatch.setenv(name, value)
    found = provenance.record(load_study(DEMO))["environment"]
    assert {name: found[name] for name in told} == told
    assert found["HF_TOKEN"] == "(set)" and "UNRELATED" not in found


def test_provenance_installed_inside_another_checkout_has_no_revision(tmp_path: Path) -> None:
    copy = tmp_path / "site-packages" / "hargo" / "provenance.py"
    copy.parent.mkdir(parents=True)
    copy.write_text(Path(provenance.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    spec = importlib.util.spec_from_file_location("installed_provenance", copy)
    assert spec is not None and spec.loader is not None
    installed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(installed)
    assert installed.git_revision() is None


def test_a_method_is_shown_with_every_option_its_default_and_its_meaning() -> None:
    done = hargo("methods", "b1")
    assert done.returncode == 0, done.stderr
    for words in (
        "B1: d only",
        'weighting          "d"',
        "prompts_per_step   4",
        "Decay of the running confidence baseline.",
    ):
        assert words in done.stdout
    assert "unknown method 'harg'; did you mean 'hargo'?" in error_line(hargo("methods", "harg"))
