"""Ranges in pyproject.toml, tested versions in constraints.txt, and environment.yml: they have to agree."""

import ast
import importlib.metadata
import json
import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import bootstrap
from tests.support.notebooks import ROOT
from utils.common.errors import Problem
from utils.course.cli import app

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
REQUIREMENTS = [Requirement(text) for text in (*PROJECT["dependencies"], *(r for rs in EXTRAS.values() for r in rs))]
CONSTRAINTS = (ROOT / "constraints.txt").read_text()
TESTED = {
    canonicalize_name(name): version
    for name, version in re.findall(r"^([\w.-]+)==(\S+)(?: ; .+)?$", CONSTRAINTS, re.MULTILINE)
}


def test_every_requirement_has_a_tested_version_in_its_range():
    for requirement in REQUIREMENTS:
        version = TESTED.get(canonicalize_name(requirement.name))
        assert version, f"constraints.txt has no version of {requirement.name}"
        assert requirement.specifier.contains(version), f"{requirement} does not admit {version}"


def imported(path):
    """The packages that a file imports, but for Python's own and the course's."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    own = {
        "utils",
        "simgpu",
        "simgpu_autoload",
        "simgpu_pytest",
        "tools",
        "tests",
        *(file.stem for file in (ROOT / "tools").glob("*.py")),
    }
    return {name.split(".")[0] for name in names} - own - sys.stdlib_module_names


def test_what_is_imported_is_declared():
    declared = {canonicalize_name(requirement.name) for requirement in REQUIREMENTS}
    owners = importlib.metadata.packages_distributions()
    code = [path for top in ("utils", "tools") for path in (ROOT / top).rglob("*.py")]
    code = [path for path in code if "tests" not in path.relative_to(ROOT).parts]
    missing = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in code
        for name in imported(path)
        if not declared & {canonicalize_name(owner) for owner in owners.get(name, ())}
    }
    assert not missing


def test_every_line_of_the_constraints_is_one_exact_version():
    lines = [line for line in CONSTRAINTS.splitlines() if not line.startswith("#")]
    assert len(lines) == len(TESTED)


def test_the_constraints_name_the_command_that_writes_them():
    assert re.search(r"^#\s+make constraints$", CONSTRAINTS, re.MULTILINE)
    assert re.search(r"^constraints:.*\n.*bootstrap\.py constraints", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_what_is_installed_is_what_was_tested():
    # Where PyTorch was there before the course, it is kept, with what came along: see tools/bootstrap.py.
    venv = Path(sys.prefix) / "pyvenv.cfg"
    kept = venv.exists() and "include-system-site-packages = true" in venv.read_text()
    for requirement in REQUIREMENTS:
        installed = importlib.metadata.version(requirement.name).split("+")[0]
        assert requirement.specifier.contains(installed)
        if not (kept and requirement.name in ("torch", "torchvision")):
            assert installed == TESTED[canonicalize_name(requirement.name)], requirement.name


def test_conda_reads_the_same_two_files():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    pip = next(entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    editable = [f"--editable .[{','.join(EXTRAS)}]", "--editable ./utils/simgpu"]
    assert pip == ["--constraint constraints.txt", *editable]
    python = next(entry for entry in environment["dependencies"] if str(entry).startswith("python="))
    assert Requirement(f"python{PROJECT['requires-python']}").specifier.contains(python.split("=")[1] + ".0")


def test_pytorch_is_the_ordinary_one():
    names = {requirement.name: requirement for requirement in REQUIREMENTS}
    assert str(names["torch"].specifier) == ">=2.11"
    assert names["torch"].url is None
    assert "torchvision" in names


def test_the_version_is_the_same_wherever_it_stands():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"]
    newest = re.search(r"^## (\S+) \((\S+)\)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest.groups() == (PROJECT["version"], str(citation["date-released"]))


def test_the_editors_and_the_workflow_name_what_there_is():
    container = (ROOT / ".devcontainer" / "devcontainer.json").read_text()
    container = json.loads("\n".join(line for line in container.split("\n") if not line.startswith("//")))
    assert container["postCreateCommand"] == "make setup"
    recommended = json.loads((ROOT / ".vscode" / "extensions.json").read_text())["recommendations"]
    assert container["customizations"]["vscode"]["extensions"] == recommended
    json.loads((ROOT / ".vscode" / "settings.json").read_text())
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "course.yml").read_text())["jobs"]
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    runs = [step["run"].split() for job in jobs.values() for step in job["steps"] if "run" in step]
    called = {words[1] for words in runs if words[0] == "make"}
    assert called == {"test-all", "nbval", "nbval-cuda", "setup-test"} <= set(targets)
    tried = {row["python"] for row in jobs["notebooks"]["strategy"]["matrix"]["include"]}
    assert all(Requirement(f"python{PROJECT['requires-python']}").specifier.contains(python) for python in tried)


def test_an_environment_that_was_moved_is_seen_and_one_that_is_linked_is_not(tmp_path, monkeypatch):
    made = tmp_path / "a folder" / ".venv"
    made.mkdir(parents=True)
    (made / "pyvenv.cfg").write_text(f"home = /usr/bin\ncommand = /usr/bin/python3 -m venv --clear --upgrade {made}\n")
    (tmp_path / "link").symlink_to(made)
    moved = tmp_path / "elsewhere"
    shutil.copytree(made, moved)
    found = {}
    for place in (made, tmp_path / "link", moved, tmp_path / "not there"):
        monkeypatch.setattr(bootstrap, "VENV", place)
        found[place.name] = bootstrap.moved_from()
    assert found == {".venv": "", "link": "", "elsewhere": str(made), "not there": ""}


def test_a_command_of_another_copy_of_the_course_says_so(tmp_path, monkeypatch):
    (tmp_path / "utils" / "course").mkdir(parents=True)
    (tmp_path / "utils" / "course" / "cli.py").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Problem, match=f"belongs to the course in {ROOT}, and you are in {tmp_path}: use"):
        app(["doctor"], standalone_mode=False)
