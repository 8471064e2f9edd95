"""The set-up in a project of nothing but what it needs, by package indexes on the loopback that serve stand-ins."""

import os
import platform
import re
import shutil
import subprocess
import sys
import venv
import zipfile

import pytest
import uv

import bootstrap
from tests.support.notebooks import ROOT
from tests.support.package_index import refusing, served, silent, stand_in_wheel
from tests.support.tiers import THOROUGH

VERSIONS = dict(line.split("==") for line in bootstrap.tested())
PYTHON = f"cp{sys.version_info[0]}{sys.version_info[1]}"
TAG = f"{PYTHON}-{PYTHON}-linux_{platform.machine()}"
USUAL, CPU = sorted(VERSIONS.values()), sorted(f"{version}+cpu" for version in VERSIONS.values())
REAL_UV = f"import os, sys\nos.execv({uv.find_uv_bin()!r}, ['uv', *sys.argv[1:]])\n"

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere there is one build only")


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
    assert bootstrap.contradicts(wish, version) == other


def stand_in_project(folder, name, requires=(), extras=()):
    """A project whose build is a wheel that is there already."""
    wheel = f"{name}-0-py3-none-any.whl"
    metadata = "".join(f"Requires-Dist: {needed}\n" for needed in requires)
    metadata += "".join(f"Provides-Extra: {extra}\n" for extra in extras)
    stand_in_wheel(folder / "built", name, "0", "py3-none-any", metadata)
    backend = f"import os, shutil\nNAME = {wheel!r}\n\n\n"
    backend += "def build_editable(folder, *settings):\n    shutil.copy(os.path.join('built', NAME), folder)\n"
    (folder / "backend.py").write_text(f"{backend}    return NAME\n\n\nbuild_wheel = build_editable\n")
    system = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    project = f'[project]\nname = "{name}"\nversion = "0"\ndependencies = {list(requires)}\n'
    optional = "".join(f"{extra} = []\n" for extra in extras)
    (folder / "pyproject.toml").write_text(f"{system}{project}[project.optional-dependencies]\n{optional}")


class Place:
    """A folder with the course's set-up and its constraints, and indexes of stand-ins: `usual` for pip, `cpu`."""

    def __init__(self, root, url):
        self.root, self.url = root, url
        for name in ("tools/bootstrap.py", "constraints.txt"):
            (root / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, root / name)
        stand_in_project(root, "course", ["torch>=2.11", "torchvision"], ["lab", "grade"])
        stand_in_project(root / "utils" / "simgpu", "simgpu")
        venv.create(root / "python", with_pip=False)  # one that has nothing of its own

    def set_up(self, **more):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "COURSE_"))}
        indexes = {"PIP_INDEX_URL": f"{self.url}/usual", bootstrap.INDEX_VARIABLE: f"{self.url}/cpu"}
        no_cache = {"PIP_NO_CACHE_DIR": "1", "UV_NO_CACHE": "1"}
        environment = {**kept, **indexes, **no_cache, "PIP_CONFIG_FILE": os.devnull, **more}
        command = [self.root / "python" / "bin" / "python", self.root / "tools" / "bootstrap.py", "lab"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def has(self):
        """The versions of torch and torchvision that were installed."""
        there = self.root.glob(".venv/lib/python*/site-packages/torch*.dist-info")
        return sorted(path.stem.split("-", 1)[1] for path in there)


@pytest.fixture
def place(tmp_path):
    for name, version in VERSIONS.items():
        stand_in_wheel(tmp_path / "usual" / name, name, version, TAG)
        stand_in_wheel(tmp_path / "cpu" / name, name, f"{version}+cpu", TAG)
    stand_in_wheel(tmp_path / "usual" / "uv", "uv", uv_version(), "py3-none-any", code=REAL_UV)
    with served(tmp_path) as url:
        (tmp_path / "course").mkdir()
        yield Place(tmp_path / "course", url)


def uv_version():
    return re.search(r"^uv==(\S+)", bootstrap.CONSTRAINTS.read_text(), re.MULTILINE)[1]


@pytest.mark.slow
def test_the_cpu_build_is_set_up_and_stays(place, tmp_path):
    code, said = place.set_up()
    assert code == 0, said
    assert f"setup: taking PyTorch {VERSIONS['torch']}+cpu (about 250 MB" in said
    assert place.has() == CPU
    shutil.rmtree(tmp_path / "cpu")  # what is there is neither fetched nor asked for again
    (place.root / "pyproject.toml").write_text((place.root / "pyproject.toml").read_text() + "# changed\n")
    code, said = place.set_up()
    assert (code, "PyTorch" in said) == (0, False), said
    assert place.has() == CPU
    code, said = place.set_up(COURSE_TORCH="cuda")
    assert "COURSE_TORCH=cuda, and .venv/ has torch" in said
    assert place.has() == USUAL
    code, said = place.set_up(COURSE_TORCH="cpu")  # which is not to be had: what is there stays
    assert said.startswith(f"setup: COURSE_TORCH=cpu, but {place.url}/cpu offers no other (")
    assert (code, place.has(), said.count("\n")) == (1, USUAL, 1)


@pytest.mark.slow
@THOROUGH
def test_pytorchs_own_index_is_asked_for_this_machine_and_silence_is_no_end(place):
    code, said = place.set_up(COURSE_TORCH_INDEX="", HTTPS_PROXY=refusing())
    assert code == 0, said
    assert "setup: taking the usual build of PyTorch (about 3 GB" in said
    assert "): PyTorch's index offers no other (Connection refused" in said
    assert place.has() == USUAL


@pytest.mark.slow
@pytest.mark.parametrize(
    "index", [pytest.param(name, marks=THOROUGH) for name in ("silent", "another", "nowhere")]
)  # a cheaper one: what the Python has is kept, below
def test_an_index_without_the_build(place, tmp_path, monkeypatch, index):
    says = {
        "silent": r"operation timed out|does not answer",
        "another": f"no version of torch=={VERSIONS['torch']}",
        "nowhere": "nowhere",
    }
    shutil.rmtree(tmp_path / "cpu" / "torch")
    stand_in_wheel(tmp_path / "cpu" / "torch", "torch", "2.11.0+cpu", TAG)
    script = place.root / "tools" / "bootstrap.py"
    script.write_text(script.read_text().replace("SECONDS = 10", "SECONDS = 1"))
    with silent() as quiet:
        address = {"silent": quiet, "another": f"{place.url}/cpu", "nowhere": "nowhere"}[index]
        code, said = place.set_up(COURSE_TORCH_INDEX=address)
        assert code == 0, said
        assert re.search(says[index], next(line for line in said.splitlines() if "taking the usual build" in line))
        assert place.has() == USUAL
        code, said = place.set_up(COURSE_TORCH_INDEX=address, COURSE_TORCH="cpu")
    assert (code, said.count("\n"), place.has()) == (1, 1, USUAL), said


@pytest.mark.slow
@THOROUGH
def test_a_wheel_that_arrives_broken_is_no_end(place, tmp_path):
    wheel = next((tmp_path / "cpu" / "torch").iterdir())
    wheel.write_bytes(wheel.read_bytes()[:100])
    code, said = place.set_up(COURSE_TORCH="cpu")
    assert code == 1
    assert "setup: " in said.splitlines()[-1]
    code, said = place.set_up()
    assert code == 0, said
    assert "taking the usual build" in said
    assert place.has() == USUAL


@THOROUGH  # a cheaper one: what the Python has is kept, below
@pytest.mark.slow
def test_where_there_is_no_uv_pip_installs_the_usual_build(place, tmp_path):
    shutil.rmtree(tmp_path / "usual" / "uv")
    code, said = place.set_up()
    assert code == 0, said
    assert "taking the usual build of PyTorch" in said
    assert "uv, which knows the others, cannot be installed" in said
    assert place.has() == USUAL
    code, said = place.set_up(COURSE_TORCH="cpu")
    assert (code, said.count("\n"), place.has()) == (1, 1, USUAL), said


@pytest.mark.slow
@pytest.mark.parametrize("has_uv", [True, pytest.param(False, marks=THOROUGH)])
def test_what_the_python_has_is_kept(place, tmp_path, has_uv):
    if not has_uv:
        shutil.rmtree(tmp_path / "usual" / "uv")
    for name, version in (("torch", "2.99.0+cu999"), ("torchvision", "0.99")):
        with zipfile.ZipFile(stand_in_wheel(tmp_path, name, version, TAG)) as wheel:
            wheel.extractall(tmp_path / "there")
    code, said = place.set_up(PYTHONPATH=str(tmp_path / "there"))
    assert code == 0, said
    assert "keeping the torch 2.99.0+cu999 that is already here" in said
    assert ("trying pip" in said) != has_uv
    assert place.has() == []
    assert "taking" not in said


@pytest.mark.slow
def test_keep_installs_no_pytorch(place, tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError")
    code, said = place.set_up(COURSE_TORCH="keep", PYTHONPATH=str(tmp_path))
    assert code == 1
    assert "COURSE_TORCH=keep, and" in said
    assert "has no PyTorch 2.11 or newer with torchvision" in said
    assert not (place.root / ".venv").exists()


@pytest.mark.slow
def test_bad_input_gets_one_line_and_leaves_nothing(place):
    code, said = place.set_up(COURSE_TORCH="gpu")
    assert (code, said) == (1, "setup: COURSE_TORCH=gpu is none of cpu, cuda, keep\n")
    code, said = place.set_up(PIP_INDEX_URL=refusing(), PIP_RETRIES="0")
    assert code == 1
    assert said.splitlines()[-1].startswith("setup: pip could not install the packages (its reason is above). Check")


def test_who_has_set_up_a_hub_is_told_the_next_command(tmp_path, monkeypatch, capsys):
    for step in ("install_system_needs", "make_venv", "install"):
        monkeypatch.setattr(bootstrap, step, lambda *_: None)
    monkeypatch.setattr(bootstrap, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(sys, "argv", ["bootstrap.py", "hub"])
    bootstrap.main()
    done, following = capsys.readouterr().out.splitlines()
    assert done.startswith("setup: done in ")
    assert "course hub CLASS --students FILE" in following


def test_what_students_servers_import_is_compiled_for_them(tmp_path, monkeypatch):
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    for package in ("tornado", "torch"):
        (packages / package).mkdir(parents=True)
        (packages / package / "web.py").write_text("number = 1\n")
    (packages / "tornado" / "other.py").write_text("no Python\n")
    monkeypatch.setattr(bootstrap, "VENV", tmp_path)
    monkeypatch.setattr(bootstrap, "VENV_PYTHON", sys.executable)
    bootstrap.compile_for_students()
    assert [path.parent.parent.name for path in packages.rglob("*.pyc")] == ["tornado"]


def test_indexes_that_pip_is_told_of_are_handed_to_uv(tmp_path, monkeypatch):
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://mirror/simple\nextra-index-url =\n    https://one/simple\n"
        "    https://two/simple\ntrusted-host = mirror\n"
        "cert = /some/certificates.pem\n[install]\nfind-links = /a /b\n"
    )
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_INDEX_URL", "https://nearer/simple")
    monkeypatch.setattr(bootstrap, "PIP", [sys.executable, "-m", "pip"])
    expected = {
        "UV_DEFAULT_INDEX": "https://nearer/simple",
        "UV_INDEX": "https://one/simple https://two/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_INSECURE_HOST": "mirror",
        "UV_FIND_LINKS": "/a,/b",
        "SSL_CERT_FILE": "/some/certificates.pem",
    }
    told = bootstrap.settings_for_uv()
    assert {name: told.get(name) for name in expected} == expected  # the machine's own pip.conf may say more
