"""Ranks in a notebook: what they return, print and fail with comes back by rank, and nothing of them stays behind."""

import os
import pickle
import queue
import signal
import sys
import threading
import time

import psutil
import pytest
import torch
import torch.distributed as dist
from jupyter_client.manager import start_new_kernel

import simgpu
from simgpu import faults, torch_private
from tests.support.notebooks import ROOT
from tests.support.tiers import THOROUGH
from utils.ranks import RankError, launch, ranks
from utils.ranks.cells import ranks_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("torchrun"),
    pytest.mark.skipif(not torch_private.has_python_backends(), reason="no backends written in Python"),
]


def mine(count=3):
    return torch.full((count,), dist.get_rank() + 1.0, device="simgpu")


def summed(of):
    shared = mine()
    dist.all_reduce(shared)
    return {"place": str(shared.device), "sum": shared, "given": of, "world": os.environ["WORLD_SIZE"]}


def test_each_rank_has_a_gpu_of_its_own_and_what_it_returns_comes_back():
    for number, told in enumerate(ranks(4).run(summed, [1, 2])):
        assert told.pop("sum").tolist() == [10.0] * 3
        assert told == {"place": f"simgpu:{number}", "given": [1, 2], "world": "4"}


OPERATORS = torch.ops.aten.mm.default, torch.ops.aten.mm, torch.ops.aten, torch.ops


def found_here(operators):
    mine = torch.ops.aten.mm.default, torch.ops.aten.mm, torch.ops.aten, torch.ops
    return [one is other for one, other in zip(operators, mine, strict=True)]


def test_pytorchs_operators_can_be_sent():
    assert ranks(1).run(found_here, OPERATORS) == [[True] * 4]


def machine():
    import simgpu

    return simgpu.describe(), simgpu.settings().nodes


def test_the_machine_is_the_one_asked_for():
    assert (
        ranks(2, gpu="H100", link="nvlink4", nodes=2).run(machine)
        == [("2 x H100 in 2 nodes, 200G, virtual clock", 2)] * 2
    )


def weights():
    torch.manual_seed(0)
    layer = torch.nn.Linear(2, 2).to("simgpu")
    layer(torch.ones(2, device="simgpu")).sum().backward()
    return layer


def test_a_model_comes_back_as_one_on_the_cpu():
    layer, _ = ranks(2).run(weights)
    assert [type(parameter).__name__ for parameter in layer.parameters()] == ["Parameter"] * 2
    assert layer(torch.ones(2)).device.type == "cpu"


def test_each_run_draws_other_numbers_on_each_rank():
    drawn = [number for _ in range(2) for number in ranks(2).run(lambda: torch.rand(()).item())]
    assert len(set(drawn)) == 4


def talking():
    number = dist.get_rank()
    dist.barrier()
    if number == 0:
        time.sleep(0.2)  # it prints after the others
    print("one")
    os.write(2, b"two, not by Python's print\n")
    print("and half a line", end="")


def test_what_ranks_print_is_shown_by_rank_in_one_order(capsys):
    ranks(2).run(talking)
    lines = ("one", "two, not by Python's print", "and half a line")
    assert capsys.readouterr().out.splitlines() == [f"rank {rank}: {line}" for rank in range(2) for line in lines]


def one_step():
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).to("simgpu"))
    model(torch.ones(2, device="simgpu")).sum().backward()


def test_pytorch_warns_of_nothing_on_each_rank(capsys):
    ranks(2).run(one_step)
    assert capsys.readouterr().out == ""


def all_fail():
    raise KeyError("no such layer")


def one_fails():
    if dist.get_rank() == 1:
        raise ValueError("a bad batch")
    dist.all_reduce(mine())


def one_exits():
    if dist.get_rank() == 2:
        os._exit(3)
    dist.barrier()


def one_is_killed():
    if dist.get_rank() == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()


def one_is_missing():
    if dist.get_rank() > 0:
        dist.all_reduce(mine())


def another_shape():
    if dist.get_rank() == 0:
        dist.all_reduce(mine(4))
    else:
        dist.all_reduce(mine(5))


def leaves():
    sys.exit("enough")


def returns_a_lock():
    return threading.Lock()


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (all_fail, ["ranks 0 to 2: KeyError: 'no such layer'", '    {}, in all_fail: raise KeyError("no such layer")']),
        (
            one_fails,
            [
                "rank 1: ValueError: a bad batch",
                '    {}, in one_fails: raise ValueError("a bad batch")',
                "ranks 0 and 2 waited in all_reduce(float32[3], SUM).",
            ],
        ),
        (
            one_exits,
            [
                "rank 2 ended with exit code 3 before the function returned, as with os._exit(3).",
                "ranks 0 and 1 waited in barrier().",
            ],
        ),
        (one_is_killed, ["rank 0 was killed by SIGKILL.", "ranks 1 and 2 waited in barrier()."]),
        (
            another_shape,
            [
                "ranks 0 to 2: Mismatch: the ranks of a group have to call the same collectives in the same order, and "
                "did not. rank 0: all_reduce(float32[4], SUM); ranks 1 and 2: all_reduce(float32[5], SUM)",
                "    rank 0: {}, in another_shape: dist.all_reduce(mine(4))",
                "    ranks 1 and 2: {}, in another_shape: dist.all_reduce(mine(5))",
            ],
        ),
        (leaves, ["ranks 0 to 2: SystemExit: enough", '    {}, in leaves: sys.exit("enough")']),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_one_error_says_what_went_wrong_on_which_rank_and_in_which_line(fault, says):
    with pytest.raises(RankError) as raised:
        ranks(3).run(fault)
    lines = [without_number(line) for line in str(raised.value).splitlines()]
    assert lines == [line.format("test_ranks.py, line N") for line in says]
    assert all("Traceback" in text for text in raised.value.tracebacks.values())


def without_number(line):
    before, is_place, after = line.partition("test_ranks.py, line ")
    return before + is_place + "N" + after.lstrip("0123456789") if is_place else line


def test_where_no_rank_failed_but_some_are_missing_they_are_named():
    says = r"ranks 1 and 2 waited in all_reduce\(float32\[3\], SUM\), which can never complete: rank 0 has ended"
    with pytest.raises(RankError, match=says):
        ranks(3).run(one_is_missing)


def test_code_that_names_the_devices_module_can_travel():
    simgpu.enable(count=2)
    gpus = torch.simgpu
    assert ranks(2).run(lambda: gpus.current_device()) == [0, 1]


def test_what_cannot_travel_is_refused_in_a_line():
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"cannot be sent to other processes: .*lock.* Create it on each rank"):
        ranks(2).run(lambda: lock)
    with pytest.raises(RankError, match=r"ranks 0 and 1: TypeError: The return value cannot be sent .*lock"):
        ranks(2).run(returns_a_lock)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match=r"ranks\(0\): give a whole number of ranks from 1 to 64"):
        ranks(0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'gpus'"):
        ranks(2, gpus="V100")
    with pytest.raises(RankError, match=r"ranks 0 and 1: ValueError: .*V1000"):
        ranks(2, gpu="V1000").run(talking)
    with pytest.raises(ValueError, match=r"^SlowGpu\(rank=2\): there is no such rank, ranks are 0 to 1$"):
        ranks(2, faults=(faults.SlowGpu(2, 1.5),))


def sums_after_work():
    x = torch.ones(2048, 2048, device="simgpu")
    begin = simgpu.now()
    x @ x
    torch.get_device_module("simgpu").synchronize()
    taken = simgpu.now() - begin
    dist.all_reduce(x)
    dist.all_reduce(x)
    return taken


def test_faults_reach_the_ranks_of_a_function_and_of_a_cell():
    one, other = ranks(2, faults=(faults.SlowGpu(1, 50),)).run(sums_after_work)
    assert other > 10 * one
    told = ["rank 1 was killed by SIGKILL.", "rank 0 waited in all_reduce(float32[2048, 2048], SUM)."]
    with pytest.raises(RankError) as raised:
        ranks_of(ranks, "2 faults=(faults.KilledRank(1, 2),), gpu='H100'", {"faults": faults}).run(sums_after_work)
    assert str(raised.value).splitlines() == told


def test_a_run_that_dies_leaves_its_flight_records_where_the_notebook_says(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", str(tmp_path / "new" / "rank_"))
    with pytest.raises(RankError, match="rank 1: ValueError: a bad batch"):
        ranks(3).run(one_fails)
    files = sorted((tmp_path / "new").iterdir())
    assert [file.name for file in files] == ["rank_0", "rank_1", "rank_2"]
    newest = [pickle.loads(file.read_bytes())["entries"][-1:] for file in files]
    assert [[one["state"] for one in entries] for entries in newest] == [["started"], [], ["started"]]
    assert "one_fails" in [frame["name"] for frame in newest[0][0]["frames"]]


def makes_a_group_late(sign):
    """Whether all ranks have their part of a new group when this rank has it. Rank 0 gets its part last."""
    made = torch_private.gloo

    def slow(*args):
        gloo = made(*args)
        time.sleep(0.5)
        sign.touch()
        return gloo

    if dist.get_rank() == 0:
        torch_private.gloo = slow
    dist.new_group()
    return sign.exists()


def test_no_rank_has_a_group_before_all_have_connected(tmp_path):
    # One that ended in between would make the others fail in gloo's words.
    assert ranks(3).run(makes_a_group_late, tmp_path / "sign") == [True] * 3


def kills_what_has_forked_it():
    print(os.getpid())
    dist.barrier()
    if dist.get_rank() == 1:
        os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)


@THOROUGH  # a cheaper one: where the fork server has died, below
def test_no_rank_outlives_what_has_forked_it_and_the_next_run_starts_another(capsys):
    with pytest.raises(RuntimeError, match="the process that starts the ranks has ended: run this again"):
        ranks(2).run(kills_what_has_forked_it)
    wait_until_gone(int(line.split()[-1]) for line in capsys.readouterr().out.splitlines())
    assert ranks(2).run(dist.get_rank) == [0, 1]


def wait_until_gone(ids):
    deadline = time.monotonic() + 60
    left = set(ids)
    while left := {number for number in left if psutil.pid_exists(number)}:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_no_rank_is_left_after_a_run():
    assert not any(psutil.pid_exists(number) for number in ranks(2).run(os.getpid))
    wait_until_gone(child.pid for child in psutil.Process(launch.shared_fork_server().process.pid).children())


def test_where_the_fork_server_has_died_the_next_run_starts_another():
    ranks(2).run(dist.get_rank)
    process = launch.shared_fork_server().process
    process.kill()
    process.wait()
    assert ranks(2).run(dist.get_rank) == [0, 1]


def parents():
    return os.getppid()


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=THOROUGH)])
def test_where_a_fork_is_not_safe_each_rank_is_a_program_of_its_own(monkeypatch, count):
    monkeypatch.setattr(launch, "can_fork", lambda: False)
    assert ranks(count).run(parents) == [os.getpid()] * count


# --- in a notebook --------------------------------------------------------------------------------------------------

CELL = """%%ranks 3
import torch.distributed as dist
class Mine:
    def __init__(self, number): self.number = number
everybody = [None] * 3
dist.all_gather_object(everybody, Mine(times * dist.get_rank()))
print(__name__, dist.get_world_size())
[one.number for one in everybody]
"""
FAILS = """%%ranks 2

double(times) + "text"
"""
WORKS = """%%ranks 2
print("at work")
while True:
    pass
"""


class Notebook:
    def __init__(self):
        self.manager, self.client = start_new_kernel(extra_arguments=["--InteractiveShell.colors=nocolor"], cwd=ROOT)

    def run(self, cell, at=None):
        """What a cell prints, and the lines of its error. `at`: what to do when it has printed something."""
        said, failed = "", []
        self.client.execute(cell)
        while True:
            message = self.client.get_iopub_msg(timeout=120)
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                said += content["text"]
                if at is not None and said:
                    at, _ = None, at()
            elif kind == "error":
                failed = content["traceback"]
            elif kind == "status" and content["execution_state"] == "idle":
                return said.splitlines(), failed


@pytest.fixture(scope="module")
def notebook():
    notebook = Notebook()
    notebook.run("from utils.ranks import ranks\ntimes = 10\ndef double(x): return 2 * x")
    yield notebook
    notebook.client.stop_channels()
    notebook.manager.shutdown_kernel(now=True)


def test_a_cell_on_ranks(notebook):
    said, failed = notebook.run(CELL)
    assert failed == []
    assert said == [f"rank {rank}: {line}" for rank in range(3) for line in ("__main__ 3", "[0, 10, 20]")]


def test_functions_of_the_notebook_run_on_ranks(notebook):
    said, _ = notebook.run("print(ranks(2).run(double, times))")
    assert said == ["[20, 20]"]


def test_an_error_of_a_cell_is_shown_with_its_line_and_no_more(notebook):
    _, failed = notebook.run(FAILS)
    assert failed[0] == "RankError: ranks 0 and 1: TypeError: unsupported operand type(s) for +: 'int' and 'str'"
    assert failed[1].endswith(', line 2: double(times) + "text"')
    assert "Cell In[" in failed[1]
    assert len(failed) == 2


def test_a_first_line_that_cannot_be_read(notebook):
    _, failed = notebook.run("%%ranks four\n1")
    assert "%%ranks four cannot be read" in failed[-1]


def test_an_interrupt_ends_a_run_with_one_line(notebook):
    said, failed = notebook.run(WORKS, at=notebook.manager.interrupt_kernel)
    assert said[0] == "rank 0: at work"
    assert failed == ["RanksInterrupted: ranks 0 and 1 were interrupted and stopped."]
    assert notebook.run("print(ranks(2).run(double, 1))") == (["[2, 2]"], []), "and the next run works"


def test_nothing_is_left_of_a_kernel_that_is_restarted(notebook):
    theirs = []

    def restart():
        theirs.extend(psutil.Process(notebook.manager.provisioner.pid).children(recursive=True))
        notebook.manager.restart_kernel(now=True)
        notebook.client.wait_for_ready(timeout=60)
        raise queue.Empty

    with pytest.raises(queue.Empty):
        notebook.run(WORKS, at=restart)
    assert len(theirs) >= 3, "the fork server and two ranks"
    wait_until_gone(process.pid for process in theirs)


def of_one_rank():
    x = torch.arange(3.0, device="simgpu:0") + 1
    gathered, scattered = torch.zeros_like(x), torch.zeros_like(x)
    dist.all_gather_single(gathered, x)
    dist.reduce_scatter_single(scattered, x)
    objects = [None]
    dist.all_gather_object(objects, "me")
    return gathered.cpu(), scattered.cpu(), objects


def test_collectives_of_one_rank_give_what_they_were_given():
    [(gathered, scattered, objects)] = ranks(1).run(of_one_rank)
    assert gathered.tolist() == scattered.tolist() == [1, 2, 3]
    assert objects == ["me"]


def of_a_mesh():
    mesh = dist.init_device_mesh("simgpu", (2, 2), mesh_dim_names=("data", "tensor"))
    shared = mine()
    dist.all_reduce(shared, group=mesh.get_group("tensor"))
    return shared.tolist()


def test_a_mesh_of_two_dimensions_makes_its_groups():
    assert ranks(4).run(of_a_mesh) == [[3.0] * 3, [3.0] * 3, [7.0] * 3, [7.0] * 3]


def times_of_two_groups(numbers):
    """(start, end) of an all-reduce in each of two groups, launched one after the other on their own streams."""
    groups = [[dist.new_group(members) for members in each] for each in numbers]
    mine = [next(group for group in each if dist.get_rank(group) >= 0) for each in groups]
    begin = simgpu.now()
    for group in mine:
        dist.all_reduce(torch.empty(2**22, device="simgpu"), group=group, async_op=True)
    return [(record.start, record.end) for record in simgpu.log(begin) if record.kind == "comm"]


IN_NODES, BETWEEN_NODES, ALL = [[0, 1], [2, 3]], [[0, 2], [1, 3]], [[0, 1, 2, 3]]


@pytest.mark.parametrize(
    ("two", "at_once"),
    [
        ((IN_NODES, BETWEEN_NODES), True),
        ((BETWEEN_NODES, IN_NODES), True),
        ((IN_NODES, IN_NODES), False),
        ((BETWEEN_NODES, BETWEEN_NODES), False),
        ((ALL, BETWEEN_NODES), False),
        ((ALL, IN_NODES), False),
    ],
)
def test_groups_wait_for_each_other_where_they_share_a_way(two, at_once):
    """HSDP shards within a node and reduces between nodes: one goes by NVLink, the other by the network."""
    for first, second in ranks(4, nodes=2, compute=False).run(times_of_two_groups, two):
        assert (second[0] < first[1]) is at_once


class Halves(torch.nn.Module):
    def __init__(self, used: bool):
        super().__init__()
        self.used = used
        self.first, self.norm = torch.nn.Linear(16, 16), torch.nn.BatchNorm1d(16)
        self.second, self.last = torch.nn.Linear(16, 16), torch.nn.Linear(16, 4)

    def forward(self, x):
        x = self.norm(self.first(x))
        return self.last(self.second(x) if self.used else x)


def trained(options):
    model = Halves(used="find_unused_parameters" not in options).to("simgpu")
    parallel = torch.nn.parallel.DistributedDataParallel(model, **options)
    optimizer = torch.optim.Adam(parallel.parameters())
    x = torch.empty(8, 16, device="simgpu")
    for _ in range(3):
        parallel(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.simgpu.synchronize()
    return simgpu.now()


@pytest.mark.parametrize(
    "options", [{}, {"bucket_cap_mb": 0.001}, {"static_graph": True}, {"find_unused_parameters": True}]
)
def test_ddp_takes_as_long_with_shapes_only_as_with_values(options):
    assert ranks(2, compute=False).run(trained, options) == ranks(2).run(trained, options)


def unlike(rows):
    torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(rows, 1 + dist.get_rank()).to("simgpu"))


def test_ddp_finds_that_models_differ_from_shapes_alone():
    with pytest.raises(RankError, match=r"params\[0\] in this process with sizes \[2, 3\] appears not to match"):
        ranks(2, compute=False).run(unlike, 3)


def on_cpu_and_gpu():
    group = dist.new_group(backend="cpu:gloo,simgpu:simccl")
    here, there = torch.ones(2) + dist.get_rank(), mine(2)
    for tensor in (here, there):
        dist.all_reduce(tensor, group=group)
    return here.tolist(), there.tolist()


def test_a_group_with_both_backends_takes_tensors_of_both():
    assert ranks(2).run(on_cpu_and_gpu) == [([3.0, 3.0], [3.0, 3.0])] * 2


def test_pytorch_attaches_no_recorder_to_a_group_of_ours():
    """It ends the process under Python 3.13."""

    def recorders():
        import torch.distributed.distributed_c10d as c10d

        return len(getattr(c10d._world, "pg_flight_recorder_hooks", ()))

    assert ranks(2).run(recorders) == [0, 0]
