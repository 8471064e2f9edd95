"""`course doctor`: what works is tried, what does not is named with what to do, and nothing makes it fall over."""

import collections

import pytest
import torch

from utils.course import cli, doctor
from utils.grading.run import sandbox


def look(subject):
    """The finding about one subject."""
    checks = [check for check in doctor.CHECKS if check[0] == subject]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doctor, "CHECKS", checks)
        (finding,) = doctor.findings()
    return finding


def test_lessons_work_here():
    found = [look(subject) for subject, needed, _ in doctor.CHECKS if needed]
    assert [finding.works for finding in found] == [True] * 3
    assert "2.15" in found[1].words or torch.__version__ in found[1].words
    assert doctor.verdict(found).startswith("Lessons and labs work here")


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(doctor, "lacking", lambda: ({"anywidget": ">=0.9"}, {}))
    finding = look("packages")
    assert finding == ("packages", False, "anywidget >=0.9 is missing. Run make lab")
    assert doctor.verdict([finding]) == "Mend first: packages."
    assert doctor.report([finding]) == "NO  packages  anywidget >=0.9 is missing. Run make lab"


def test_no_gpu_is_no_illness(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    monkeypatch.setattr(doctor.os.path, "exists", lambda path: False)
    assert look("real GPUs") == ("real GPUs", None, "none, and none is needed")


@pytest.mark.parametrize(
    ("build", "says"), [(None, "COURSE_TORCH=cuda make lab takes the other"), ("13.2", "is the driver too old?")]
)
def test_a_driver_that_pytorch_does_not_use_is_told(monkeypatch, build, says):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.version, "cuda", build)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    assert says in look("real GPUs").words


def test_without_a_sandbox_only_grading_is_lacking(monkeypatch):
    def require():
        raise sandbox.NoSandbox("the program bwrap is missing: install it")

    monkeypatch.setattr(sandbox, "require_sandbox", require)
    assert look("grading") == ("grading", None, "the program bwrap is missing: install it. Learning needs none")


def test_a_folder_that_is_read_only(monkeypatch):
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: False)
    assert "is read-only: notebooks run, and cannot be saved there" in look("this folder").words


def test_little_memory(monkeypatch):
    memory = collections.namedtuple("memory", "total")(2 * 2**30)
    monkeypatch.setattr(doctor.psutil, "virtual_memory", lambda: memory)
    assert look("this machine").words.startswith("2 GiB of memory are little")


def test_a_look_that_raises_is_a_finding(monkeypatch):
    def look_and_fall():
        raise OSError("libtorch.so: no such file\nand more")

    monkeypatch.setattr(doctor, "CHECKS", [("PyTorch", True, look_and_fall)])
    assert list(doctor.findings()) == [("PyTorch", False, "OSError: libtorch.so: no such file")]


@pytest.mark.parametrize(("works", "code"), [(True, 0), (None, 0), (False, 1)])
def test_the_command_ends_as_a_program_asks(monkeypatch, capsys, works, code):
    monkeypatch.setattr(doctor, "findings", lambda: iter([doctor.Diagnosis("PyTorch", works, "2.15")]))
    monkeypatch.setattr("sys.argv", ["course", "doctor"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert int(ended.value.code) == code
    assert "PyTorch  2.15" in capsys.readouterr().out


def test_what_tests_need_is_set_up_by_another_command(monkeypatch):
    def missing(name):
        raise doctor.PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "version", missing)
    for name, how in (("jupyterlab", {}), ("pytest", {"set_up": "make setup-test"})):
        with pytest.raises(doctor.Sick, match=f"{name} is missing. Run {how.get('set_up', 'make lab')}"):
            doctor._version(name, **how)
