"""Which build of PyTorch is set up and why, by a package index on the loopback that serves stand-in wheels."""

import os
import platform
import re
import shutil
import subprocess
import sys
import venv
import zipfile

import pytest

import torch_build
from tests.support.notebooks import ROOT
from tests.support.package_index import refusing, served, silent, stand_in_wheel
from torch_build import Choice, Unanswered, choose, contradicts

VERSIONS = dict(re.findall(r"^(torch|torchvision)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
PYTHON = f"cp{sys.version_info[0]}{sys.version_info[1]}"
TAG = f"{PYTHON}-{PYTHON}-linux_{platform.machine()}"

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere there is one build only")


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch):
    for name in (torch_build.VARIABLE, torch_build.INDEX_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(torch_build, "SECONDS", 0.5)


@pytest.fixture
def no_driver(monkeypatch):
    monkeypatch.setattr(torch_build, "nvidia_driver", lambda: "")


@pytest.fixture
def cpu_index(tmp_path):
    """A folder as an index, with the CPU's build of what the course was tested with."""
    for name, version in VERSIONS.items():
        stand_in_wheel(tmp_path / "cpu" / name, name, f"{version}+cpu", TAG)
    return tmp_path / "cpu"


def asked(monkeypatch, index, wish=""):
    monkeypatch.setenv(torch_build.INDEX_VARIABLE, index)
    return choose(wish, VERSIONS)


def test_without_a_driver_the_cpu_build_is_taken_where_its_index_answers(monkeypatch, no_driver, cpu_index):
    with served(cpu_index) as url:
        assert asked(monkeypatch, url) == Choice(url, "there is no NVIDIA driver here")
        assert asked(monkeypatch, f"{url}/", "cpu") == Choice(url, "COURSE_TORCH=cpu asks for it")


def test_with_a_driver_or_when_told_to_nobody_is_asked(monkeypatch):
    monkeypatch.setattr(torch_build, "nvidia_driver", lambda: "libcuda.so.1")
    monkeypatch.setattr(torch_build, "find", lambda *_: pytest.fail("asked an index"))
    assert choose("", VERSIONS) == Choice(None, "an NVIDIA driver is here: libcuda.so.1")
    assert choose("cuda", VERSIONS) == Choice(None, "COURSE_TORCH=cuda asks for it")
    monkeypatch.setattr(torch_build, "on_linux", lambda: False)
    assert choose("", VERSIONS).index is None


def test_cpu_is_taken_with_a_driver_when_told_to(monkeypatch, cpu_index):
    monkeypatch.setattr(torch_build, "nvidia_driver", lambda: "libcuda.so.1")
    with served(cpu_index) as url:
        assert asked(monkeypatch, url, "cpu").index == url


def refused(monkeypatch, url, says):
    """The usual build is taken and the reason said; where the CPU's was asked for, the same reason stops."""
    assert asked(monkeypatch, url) == Choice(None, f"there is no NVIDIA driver, but 127.0.0.1 {says}")
    with pytest.raises(Unanswered, match=re.escape(says)):
        asked(monkeypatch, url, "cpu")


def test_an_index_that_refuses(monkeypatch, no_driver):
    refused(monkeypatch, refusing(), f"cannot be reached ({os.strerror(111)})")


def test_an_index_that_hangs(monkeypatch, no_driver):
    with silent() as url:
        refused(monkeypatch, url, "does not answer within 0.5 seconds")


def test_an_index_that_knows_no_pytorch(monkeypatch, no_driver, tmp_path):
    with served(tmp_path) as url:
        refused(monkeypatch, url, "answers 404 File not found")


def test_an_index_with_another_version(monkeypatch, no_driver, tmp_path, cpu_index):
    (cpu_index / "torch").rename(tmp_path / "other")
    stand_in_wheel(cpu_index / "torch", "torch", "2.11.0+cpu", TAG)
    stand_in_wheel(cpu_index / "torch", "torch", VERSIONS["torch"], TAG)  # not the CPU's
    stand_in_wheel(cpu_index / "torch", "torch", f"{VERSIONS['torch']}+cpu", "cp27-cp27m-linux_sparc")
    here = f"Python {platform.python_version_tuple()[0]}.{platform.python_version_tuple()[1]} on {platform.machine()}"
    with served(cpu_index) as url:
        refused(monkeypatch, url, f"has no CPU build of torch {VERSIONS['torch']} for {here}")


def test_an_address_that_is_none(monkeypatch, no_driver):
    assert "cannot be reached" in asked(monkeypatch, "nowhere").why


@pytest.mark.parametrize(
    ("wish", "version", "other"),
    [
        ("cpu", "2.15.0", True),
        ("cpu", "2.15.0+cpu", False),
        ("cuda", "2.15.0+cpu", True),
        ("cuda", "2.11.0+cu128", False),
        ("", "2.15.0", False),
        ("keep", "2.15.0+cpu", False),
        ("cpu", None, False),
    ],
)
def test_a_pytorch_that_is_there_stays_unless_the_other_is_asked_for(wish, version, other):
    assert contradicts(wish, version) == other


def test_a_word_that_is_none_is_refused(monkeypatch):
    monkeypatch.setenv(torch_build.VARIABLE, "gpu")
    with pytest.raises(ValueError, match="COURSE_TORCH=gpu is none of cpu, cuda, keep"):
        torch_build.wish()


# --- the whole set-up, in a project of nothing but what it needs -------------------------------------------------


def stand_in_project(folder, name, metadata=""):
    """A project whose build is a wheel that is there already."""
    wheel = f"{name}-0-py3-none-any.whl"
    stand_in_wheel(folder / "built", name, "0", "py3-none-any", metadata)
    backend = f"import os, shutil\nNAME = {wheel!r}\n\n\n"
    backend += "def build_editable(folder, *settings):\n    shutil.copy(os.path.join('built', NAME), folder)\n"
    (folder / "backend.py").write_text(f"{backend}    return NAME\n\n\nbuild_wheel = build_editable\n")
    system = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (folder / "pyproject.toml").write_text(f'{system}[project]\nname = "{name}"\nversion = "0"\n')


class Place:
    """A folder with the course's set-up and its constraints, and indexes of stand-ins."""

    def __init__(self, root, url):
        self.root, self.url = root, url
        for name in ("tools/bootstrap.py", "tools/torch_build.py", "tools/progress.py", "constraints.txt"):
            (root / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, root / name)
        metadata = (
            "Requires-Dist: torch>=2.11\nRequires-Dist: torchvision\nProvides-Extra: lab\nProvides-Extra: grade\n"
        )
        stand_in_project(root, "course", metadata)
        stand_in_project(root / "utils" / "simgpu", "simgpu")
        venv.create(root / "python", with_pip=False)  # one that has nothing of its own

    def set_up(self, **more):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "COURSE_"))}
        indexes = {"PIP_INDEX_URL": f"{self.url}/usual", torch_build.INDEX_VARIABLE: f"{self.url}/cpu"}
        environment = {**kept, **indexes, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1", **more}
        command = [self.root / "python" / "bin" / "python", self.root / "tools" / "bootstrap.py", "lab"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def has(self):
        """The versions of torch and torchvision that were installed."""
        there = self.root.glob(".venv/lib/python*/site-packages/torch*.dist-info")
        return sorted(path.stem.split("-", 1)[1] for path in there)


@pytest.fixture
def place(tmp_path, cpu_index):
    for name, version in VERSIONS.items():
        stand_in_wheel(tmp_path / "usual" / name, name, version, TAG)
    with served(tmp_path) as url:
        (tmp_path / "course").mkdir()
        yield Place(tmp_path / "course", url)


USUAL, CPU = sorted(VERSIONS.values()), sorted(f"{version}+cpu" for version in VERSIONS.values())


@pytest.mark.slow
@pytest.mark.skipif(bool(torch_build.nvidia_driver()), reason="there is an NVIDIA driver")
def test_the_cpu_build_is_set_up_and_stays(place, tmp_path):
    code, said = place.set_up()
    assert code == 0, said
    assert "PyTorch: the CPU build" in said
    assert "because there is no NVIDIA driver here" in said
    assert place.has() == CPU
    shutil.rmtree(tmp_path / "cpu")  # what is there is neither fetched nor asked for again
    (place.root / "pyproject.toml").write_text((place.root / "pyproject.toml").read_text() + "# changed\n")
    code, said = place.set_up()
    assert (code, "PyTorch:" in said) == (0, False), said
    assert place.has() == CPU
    code, said = place.set_up(COURSE_TORCH="cuda")
    assert "COURSE_TORCH=cuda, and .venv/ has torch" in said
    assert place.has() == USUAL
    code, said = place.set_up(COURSE_TORCH="cpu")  # which is not to be had: what is there stays
    assert said.startswith("setup: COURSE_TORCH=cpu, but 127.0.0.1 answers 404")
    assert (code, place.has()) == (1, USUAL)


@pytest.mark.slow
@pytest.mark.skipif(bool(torch_build.nvidia_driver()), reason="there is an NVIDIA driver")
def test_a_wheel_that_arrives_broken_is_no_end(place, tmp_path):
    wheel = next((tmp_path / "cpu" / "torch").iterdir())
    wheel.write_bytes(wheel.read_bytes()[:100])
    code, said = place.set_up(COURSE_TORCH="cpu")
    assert code == 1
    assert "setup: the CPU build could not be fetched (pip's reason is above)" in said.splitlines()[-1]
    code, said = place.set_up()
    assert code == 0, said
    assert "taking the usual one" in said
    assert place.has() == USUAL


@pytest.mark.slow
def test_what_the_python_has_is_kept(place, tmp_path):
    for name, version in (("torch", "2.99.0+cu999"), ("torchvision", "0.99")):
        with zipfile.ZipFile(stand_in_wheel(tmp_path, name, version, TAG)) as wheel:
            wheel.extractall(tmp_path / "there")
    code, said = place.set_up(PYTHONPATH=str(tmp_path / "there"))
    assert code == 0, said
    assert "keeping the torch 2.99.0+cu999 that is already here" in said
    assert place.has() == []
    assert "PyTorch:" not in said


@pytest.mark.slow
def test_keep_installs_no_pytorch(place, tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError")
    code, said = place.set_up(COURSE_TORCH="keep", PYTHONPATH=str(tmp_path))
    assert code == 1
    assert "COURSE_TORCH=keep, and" in said
    assert "has no PyTorch 2.11 or newer with torchvision" in said
    assert not (place.root / ".venv").exists()
