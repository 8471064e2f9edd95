"""`course measure`: from simulated GPUs to a file, back, and beside what others measured; and files that are wrong."""

import json

import pytest
import torch

import simgpu
from tests.support.notebooks import ROOT
from utils.common.errors import Problem
from utils.course import cli, measure, measured
from utils.simgpu.benchmarks import measurements


@pytest.fixture(scope="module")
def of_a_t4():
    """What `course measure --simulated T4` finds."""
    found = measure.measure_all(measure.simulated_devices("T4"))
    simgpu.enable(count=2)
    return found


@pytest.fixture
def file(of_a_t4, tmp_path):
    measured.write(tmp_path / "t4.json", of_a_t4)
    return tmp_path / "t4.json"


def change(file, how, sign=True):
    """Change what is in a file, with a new digest or with the old one."""
    content = json.loads(file.read_text())
    how(content)
    if sign:
        content["digest"] = measured.digest(content)
    file.write_text(json.dumps(content))


def refused(file, says):
    with pytest.raises(Problem, match=says) as problem:
        measured.read(file)
    assert "\n" not in str(problem.value)
    assert len(str(problem.value)) < 300


def test_measured_written_and_read_is_the_same(of_a_t4, file):
    content = measured.read(file)
    assert {name: content[name] for name in of_a_t4} == json.loads(json.dumps(of_a_t4))
    assert [gpu["name"] for gpu in content["gpus"]] == ["T4", "T4"]
    assert all(gpu["simulated"] for gpu in content["gpus"])


def test_what_a_simulated_gpu_measures_is_what_its_profile_predicts(file):
    gpu = measured.read(file)["gpus"][0]
    for row, seconds in zip(gpu["operators"], measured.predicted_seconds(gpu), strict=True):
        # Ten in a row: the host's 40 microseconds to launch the first are four of each.
        assert row["seconds"] == pytest.approx(seconds + 4e-6, rel=1e-3), row
    simgpu.enable(count=2)


def test_the_table_has_every_operator_and_link(file):
    text = measured.table(measured.read(file))
    simgpu.enable(count=2)
    assert text.count("mm float16") == 4
    assert "T4, simulated" in text
    assert "simgpu:0 to simgpu:1: 11.0 GB/s" in text


def test_a_file_names_no_person(file):
    import getpass
    import socket

    text = file.read_text()
    assert socket.gethostname() not in text
    assert str(ROOT) not in text
    assert f'"{getpass.getuser()}"' not in text


# --- files that are not right: one line each ------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.99])
def test_a_truncated_file(file, kept):
    text = file.read_text()
    file.write_text(text[: int(kept * len(text))])
    refused(file, "t4.json is broken off, or no JSON")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"cells": [], "nbformat": 4}', "was not written by `course measure`"),
        (b"[1, 2]", "was not written by `course measure`"),
        (b"gpu,op,us\nT4,mm,3\n", "broken off, or no JSON"),
        (b"\x89PNG\r\n\x1a\n\x00\xff", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b" " * (2**20 + 1), "has more than 1 MiB"),
        (b'{"seconds": NaN}', "NaN is no time and no rate"),
    ],
)
def test_a_foreign_file(tmp_path, content, says):
    (tmp_path / "other.json").write_bytes(content)
    refused(tmp_path / "other.json", says)


def test_no_file(tmp_path):
    refused(tmp_path / "nowhere.json", "cannot be read: No such file")


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (lambda c: c.update(version=2), "written by a newer version"),
        (lambda c: c.pop("gpus"), "'gpus' is a required property"),
        (lambda c: c["gpus"].clear(), "gpus"),
        (lambda c: c["gpus"][0]["operators"][3].update(seconds=-1), r"gpus\[0\].operators\[3\].seconds: -1 is less"),
        (lambda c: c["gpus"][0]["operators"][3].update(seconds="3 ms"), "'3 ms' is not of type 'number'"),
        (lambda c: c["gpus"][0]["profile"].update(flops=10**400), "greater than the maximum"),
        (lambda c: c["gpus"][0].update(name=["T4"]), "is not of type 'string'"),
        (lambda c: c.update(script="rm"), "Additional properties are not allowed"),
        (lambda c: c["gpus"][0].update(name="T4 \x1b[2J\x1b]0;mine\x07"), r"gpus\[0\].name: .* does not match"),
        (lambda c: c["gpus"][0].update(name="T4\nmade by the course. All fine."), r"gpus\[0\].name: .* does not match"),
        (lambda c: c["gpus"][0].update(name="T4\n"), r"gpus\[0\].name: .* does not match"),
        (lambda c: c.update(torch="\x1b]8;;http://x\x07click"), "torch: .* does not match"),
        (lambda c: c["gpus"][0]["profile"].update(flops=1e-300), "flops: 1e-300 is less than or equal to the minimum"),
        (lambda c: c["gpus"][0]["profile"].update(multiprocessors=0.5), "0.5 is not of type 'integer'"),
        (lambda c: c["gpus"][0]["profile"].update(launch=60), "launch: 60 is greater than the maximum of 0.1"),
    ],
)
def test_a_wrong_file(file, how, says):
    change(file, how)
    refused(file, says)


def faster(content, times):
    for row in content["gpus"][0]["operators"]:
        row["seconds"] /= times


def test_a_file_that_was_changed_afterwards(file):
    change(file, lambda c: faster(c, 1.01), sign=False)
    refused(file, "was changed after it was measured")


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (lambda c: faster(c, 10), r"T4: mm in float32 in .* TFLOP/s, more than 1.3 times the datasheet"),
        (lambda c: c["gpus"][0]["profile"].update(bandwidth=4e12), "4000 GB/s are more than 1.3 times the datasheet"),
        (lambda c: (c["gpus"][0].update(name="GTX Imaginary"), faster(c, 1e6)), "more than any GPU does"),
        (lambda c: c["gpus"][0]["operators"].pop(), r"12 operators that are not the 13 of `course measure`"),
        (lambda c: c["gpus"][0]["operators"][0]["params"].update(m=2**40), "operators that are not the 13"),
    ],
)
def test_a_forged_file_with_a_digest_of_its_own(file, how, says):
    change(file, how)
    refused(file, says)


def test_the_command_says_one_line(file, monkeypatch, capsys):
    file.write_text(file.read_text()[:-100])
    monkeypatch.setattr("sys.argv", ["course", "measurements", str(file)])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("course: t4.json is broken off")
    assert len(said.err.splitlines()) == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_how_to_try():
    with pytest.raises(Problem, match=r"PyTorch sees no GPU here\. `--simulated T4`"):
        measure.real_devices()


# --- beside what others measured ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("Tesla T4", "T4"),
        ("Tesla P100-PCIE-16GB", "P100"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("Tesla V100-PCIE-32GB", "V100-PCIe"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB-SXM"),
        ("NVIDIA A100-PCIE-40GB", "A100-40GB-PCIe"),
        ("NVIDIA A100 80GB PCIe", "A100-80GB-PCIe"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", None),
        ("NVIDIA GeForce RTX 2080 Ti", "2080Ti"),
        ("NVIDIA GeForce RTX 4070", None),
    ],
)
def test_a_product_finds_its_profile(name, profile):
    assert measured.profile_of(name) == profile


@pytest.mark.parametrize("name", ["Tesla T4", "GTX Imaginary"])
def test_rows_that_were_sent_in_come_beside_the_published_ones(file, name, tmp_path):
    from utils.simgpu.benchmarks.measured import draw

    def real(content):
        for gpu in content["gpus"]:
            gpu.update(simulated=False, name=name)

    with pytest.raises(Problem, match="was measured on a simulated GPU"):
        measurements.sent_in(file)
    change(file, real)
    rows = measurements.sent_in(file)
    assert len(rows) == 2 * len(measure.OPERATORS)
    predicted = measurements.predicted(rows)
    simgpu.enable(count=2)
    for row, seconds in zip(rows, predicted, strict=True):
        # By its own rates a GPU is known less well than by a profile.
        assert row.seconds == pytest.approx(seconds, rel=0.06 if name == "Tesla T4" else 0.5), row
    draw(rows, predicted, tmp_path / "both.png")
    assert (tmp_path / "both.png").stat().st_size > 10_000
