"""devices(): real where there are enough, simulated otherwise, and an override that is obeyed or refused."""

import pytest
import torch

import simgpu
from utils.observe.devices import describe, devices, is_idle, is_simulated, synchronize


@pytest.fixture(autouse=True)
def no_override(monkeypatch):
    monkeypatch.delenv("COURSE_DEVICES", raising=False)


@pytest.fixture
def real_gpus(monkeypatch):
    """Pretend that PyTorch sees this many real GPUs. Only what devices() asks for is answered; none is used."""

    def pretend(count):
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Pretended GPU")

    return pretend


def test_two_simulated_where_there_is_no_gpu(real_gpus, capsys):
    real_gpus(0)
    assert devices(2) == [torch.device("simgpu:0"), torch.device("simgpu:1")]
    assert capsys.readouterr().out == (
        "Using simgpu:0 and simgpu:1: simulated, computed on this machine's CPU (PyTorch sees 0 real GPUs here).\n"
    )


def test_one_real_gpu_is_not_two(real_gpus, capsys):
    real_gpus(1)
    assert all(is_simulated(device) for device in devices(2))
    assert "(PyTorch sees 1 real GPU here)" in capsys.readouterr().out


def test_two_real_gpus_are_used(real_gpus, capsys):
    real_gpus(2)
    assert devices(2) == [torch.device("cuda:0"), torch.device("cuda:1")]
    assert capsys.readouterr().out == "Using cuda:0 and cuda:1: real (Pretended GPU).\n"


def test_override_simulated_on_a_gpu_machine(real_gpus, monkeypatch, capsys):
    real_gpus(2)
    monkeypatch.setenv("COURSE_DEVICES", "simulated")
    assert devices(2) == [torch.device("simgpu:0"), torch.device("simgpu:1")]
    assert "COURSE_DEVICES=simulated" in capsys.readouterr().out


def test_override_one_gpu_under_two_names(real_gpus, monkeypatch, capsys):
    real_gpus(1)
    monkeypatch.setenv("COURSE_DEVICES", "cuda:0,cuda:0")
    assert devices(2) == [torch.device("cuda:0"), torch.device("cuda:0")]
    assert "one GPU under several names" in capsys.readouterr().out


def test_override_simulated_by_name(monkeypatch):
    monkeypatch.setenv("COURSE_DEVICES", "simgpu:1, simgpu:0")
    assert devices(2) == [torch.device("simgpu:1"), torch.device("simgpu:0")]


@pytest.mark.parametrize(
    ("wish", "real", "says"),
    [
        ("cuda", 0, "needs 2 real GPUs, and PyTorch sees 0 on this machine"),
        ("cuda", 1, "needs 2 real GPUs, and PyTorch sees 1"),
        ("cuda:0,cuda:3", 2, "COURSE_DEVICES=cuda:0,cuda:3 needs 4 real GPUs, and PyTorch sees 2"),
    ],
)
def test_more_real_gpus_than_there_are(real_gpus, monkeypatch, wish, real, says):
    real_gpus(real)
    monkeypatch.setenv("COURSE_DEVICES", wish)
    with pytest.raises(RuntimeError, match=says) as error:
        devices(2)
    assert "COURSE_DEVICES=simulated" in str(error.value)


@pytest.mark.parametrize("wish", ["gpu", "cuda:zero", "simgpu", "cuda:0,what:1", "simgpu:-1,simgpu:0"])
def test_an_override_that_cannot_be_read(monkeypatch, wish):
    monkeypatch.setenv("COURSE_DEVICES", wish)
    with pytest.raises(ValueError, match="cannot be read: write 'simulated', 'cuda'"):
        devices(2)


def test_an_override_that_names_too_few(monkeypatch):
    monkeypatch.setenv("COURSE_DEVICES", "simgpu:0")
    with pytest.raises(ValueError, match=r"names 1 device\(s\), and this notebook asks for 2"):
        devices(2)


@pytest.mark.parametrize("count", [0, -1, 1.0, True, None])
def test_a_count_that_makes_no_sense(count):
    with pytest.raises(ValueError, match="1 or more"):
        devices(count)


def test_asking_for_fewer_keeps_what_lives_on_the_others():
    simgpu.enable(count=3)
    x = torch.ones(2, device="simgpu:2")
    assert devices(2, quiet=True) == [torch.device("simgpu:0"), torch.device("simgpu:1")]
    assert (x + 1).device == torch.device("simgpu:2")


def test_synchronize_takes_any_device():
    simgpu.enable(count=2)
    synchronize("cpu")
    synchronize(torch.device("simgpu:1"))
    with pytest.raises(RuntimeError, match="no simgpu:5"):
        synchronize("simgpu:5")


def test_describe_says_what_is_real_and_what_is_simulated(real_gpus, capsys):
    real_gpus(0)
    simgpu.enable(count=2)
    describe()
    text = capsys.readouterr().out
    assert torch.__version__ in text
    assert "none: PyTorch sees no NVIDIA GPU here" in text
    assert "simgpu:1  simulated: its numbers are computed on the CPU" in text


def test_simulated_devices_can_be_paced_or_have_little_memory(capsys):
    devices(2, paced=True, memory=10**6)
    assert simgpu.describe() == "2 x Instructional, instructional, paced clock"
    assert torch.simgpu.mem_get_info(0)[1] == 10**6
    assert "simulated, paced to the wall clock, computed on" in capsys.readouterr().out
    devices(2, memory=2 * 10**6, quiet=True)
    assert simgpu.describe() == "2 x V100, nvlink2, virtual clock"
    assert torch.simgpu.mem_get_info(1)[1] == 2 * 10**6
    devices(2, quiet=True)  # keeps what is there
    assert torch.simgpu.mem_get_info(1)[1] == 2 * 10**6
    simgpu.enable(count=2)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"count": 1}, "1 x V100, virtual clock"),
        ({"count": 4, "nodes": 4, "network": "400G"}, "4 x V100 in 4 nodes, 400G, virtual clock"),
        ({"count": 4, "nodes": 2, "compute": False}, "4 x V100 in 2 nodes, nvlink2, 200G, virtual clock, shapes only"),
        ({"count": 1, "nodes": 2}, "1 x V100 for 2 nodes, 200G, virtual clock"),
    ],
)
def test_a_machine_is_described_by_the_links_that_it_uses(asked, told):
    try:
        simgpu.enable(**asked)
        assert simgpu.describe() == told
    finally:
        simgpu.enable(count=2)


def test_simulated_devices_can_do_without_numbers(capsys):
    try:
        device, _ = devices(2, paced=True, compute=False)
        assert simgpu.describe() == "2 x Instructional, instructional, paced clock, shapes only"
        assert "simulated, paced to the wall clock, shapes only: no numbers are computed (" in capsys.readouterr().out
        assert (torch.ones(3, 2, device=device) @ torch.ones(2, 5, device=device)).shape == (3, 5)
        devices(2, compute=False)
        assert simgpu.describe() == "2 x V100, nvlink2, virtual clock, shapes only"
        assert "simulated, shapes only: no numbers are computed (" in capsys.readouterr().out
        devices(2, quiet=True, paced=True)
        assert simgpu.describe() == "2 x Instructional, instructional, paced clock"
    finally:
        simgpu.enable(count=2)


def test_real_devices_always_compute(real_gpus, capsys):
    real_gpus(2)
    assert devices(2, paced=True, compute=False) == [torch.device("cuda:0"), torch.device("cuda:1")]
    assert "shapes" not in capsys.readouterr().out


def test_a_device_is_idle_when_it_has_done_all_that_it_was_given():
    simgpu.enable(count=2)
    x = torch.zeros(500, 500, device="simgpu:1")
    synchronize("simgpu:1")
    assert is_idle("simgpu:1")
    x @ x
    assert not is_idle("simgpu:1")
    assert is_idle("simgpu:0")
    assert is_idle("cpu")
    synchronize("simgpu:1")
    assert is_idle("simgpu:1")
