"""What a person is told while pip works."""

import sys

import progress
from progress import Progress, run_pip


def test_it_tells_what_is_fetched_and_how_much(tmp_path):
    told = Progress(tmp_path)
    assert str(told) == "looking up what is needed"
    for line in (
        "Collecting torch==2.15.0+cpu\n",
        "  Downloading http://127.0.0.1/torch-2.15.0%2Bcpu-cp311-cp311-linux_x86_64.whl (191.8 MB)\n",
        "  Downloading numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.whl.metadata (6.6 kB)\n",
        "  Downloading nvidia_cudnn_cu13-9.24-py3-none-linux_x86_64.whl (1.2 GB)\n",
        "Requirement already satisfied: six in somewhere (1.17.0)\n",
    ):
        told.hear(line)
    assert str(told) == "fetching nvidia-cudnn-cu13 (1.2 GB), number 3, 1,392 MB with those before"


def test_it_tells_how_far_it_has_unpacked(tmp_path):
    (tmp_path / "pip-23.dist-info").mkdir()
    told = Progress(tmp_path)
    told.hear("Installing collected packages: six, numpy, torch\n")
    assert str(told) == "unpacking 1 of 3: six"
    for name in ("six-1.dist-info", "numpy-2.dist-info"):
        (tmp_path / name).mkdir()
    assert str(told) == "unpacking 3 of 3: torch"
    (tmp_path / "torch-2.dist-info").mkdir()
    (tmp_path / "another-2.dist-info").mkdir()
    assert str(told) == "unpacking 3 of 3: torch"


def pip(tmp_path, code):
    return run_pip([sys.executable, "-c", code], tmp_path, tmp_path / "setup.log", cwd=tmp_path)


def test_all_that_pip_says_is_kept_and_little_of_it_shown(tmp_path, capsys):
    assert pip(tmp_path, "print('Collecting six')")
    assert pip(tmp_path, "print('Collecting seven')")
    assert (tmp_path / "setup.log").read_text() == "Collecting six\nCollecting seven\n"
    assert capsys.readouterr().out == ""


def test_while_pip_is_silent_a_person_sees_where_it_is(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.05)
    code = "import time; print('  Downloading torch-2-py3.whl (3 MB)', flush=True); time.sleep(1)"
    assert pip(tmp_path, code)
    assert " s  fetching torch (3 MB), number 1, 3 MB" in capsys.readouterr().out


def test_what_went_wrong_is_shown_in_pips_own_words(tmp_path, capsys):
    assert not pip(tmp_path, "print('Collecting six\\nERROR: no such thing'); raise SystemExit(1)")
    assert capsys.readouterr().out.splitlines() == [
        "ERROR: no such thing",
        f"(pip's whole output is in {tmp_path / 'setup.log'})",
    ]
    assert not pip(tmp_path, "raise SystemExit('out of memory')")
    assert capsys.readouterr().out.startswith("out of memory\n")
