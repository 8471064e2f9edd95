"""Ranks of which one skips a collective, calls another or is killed: what all see, and what PyTorch's analyzer says.

Values are held against gloo, on which the same fault is made by hand.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import simgpu
from simgpu import torch_private

HERE = Path(__file__).parent
SIMGPU = str(Path(simgpu.__file__).parents[1])  # for processes that this one starts
SOURCE = (HERE / "broken.py").read_text().splitlines()
CASES = ("healthy", "slow", "skipped", "skipped alike", "other", "killed", "other in fsdp", "own error")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.thorough,  # cheaper ones, of ranks that miss or fail: tests/process_groups of the course
    pytest.mark.xdist_group("torchrun"),
    pytest.mark.skipif(not torch_private.has_python_backends(), reason="no backends written in Python"),
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": SIMGPU, "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, str(HERE / "broken.py"), str(folder), *CASES, "gloo", "gloo skipped alike"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return folder


def seen(runs, case):
    """What each rank has told, by rank; all have ended, within the patience of broken.py."""
    assert json.loads((runs / case / "ended.json").read_text()), case
    files = [runs / case / f"{rank}.json" for rank in range(4)]
    return {rank: json.loads(file.read_text()) for rank, file in enumerate(files) if file.exists()}


def dumps(runs, case):
    return sorted(file.name for file in (runs / case / "flight").glob("*"))


def analyzed(runs, case, *more):
    """The calls as PyTorch's analyzer has matched them.

    It takes the rank that comes first for the one that is right, and that is the order in which the folder lists files.
    """
    from torch.distributed.flight_recorder.components.builder import build_db
    from torch.distributed.flight_recorder.components.config_manager import JobConfig
    from torch.distributed.flight_recorder.components.loader import read_dir

    asked = JobConfig().parse_args([str(runs / case / "flight"), *more])
    details, version = read_dir(asked)
    return build_db(dict(sorted(details.items())), asked, version).collectives


def lines_of(frames):
    """The lines of broken.py that a call came through."""
    return [SOURCE[frame["line"] - 1].strip() for frame in frames if frame["filename"] == str(HERE / "broken.py")]


ALL_REDUCE, BROADCAST = "dist.all_reduce(values[-1])", "dist.broadcast(values[-1], 0)"


def test_faults_of_time_change_no_value_and_not_the_order(runs):
    healthy, slow, gloo = (seen(runs, case) for case in ("healthy", "slow", "gloo"))
    for rank in range(4):
        assert healthy[rank]["values"] == slow[rank]["values"] == gloo[rank]["values"]
        assert healthy[rank]["error"] == slow[rank]["error"] == ""
    names = [[name for name, *_ in told[0]["comm"]] for told in (healthy, slow)]
    assert names[0] == names[1] == ["all_reduce", "all_to_all", "all_gather", "send", "recv", "barrier"]
    assert dumps(runs, "healthy") == dumps(runs, "slow") == []


def test_a_collective_that_one_skips_meets_the_next_that_looks_alike_as_on_gloo(runs):
    """And the others wait for the last, which never comes: until then all goes on, with wrong numbers."""
    ours, gloo = seen(runs, "skipped alike"), seen(runs, "gloo skipped alike")
    for rank in range(4):
        complete = 4 if rank == 1 else 3  # gloo has begun to add to the last
        assert ours[rank]["values"][:complete] == gloo[rank]["values"][:complete]
        assert bool(gloo[rank]["error"]) == (rank != 1)
        assert ours[rank]["error"] == ("" if rank == 1 else "RanksMissing")
    assert ours[0]["values"][1] != [406.0] * 3  # which it would be without the fault
    assert all("rank 1 has ended" in ours[rank]["message"] for rank in (0, 2, 3))


def test_a_collective_that_one_skips_is_noticed_where_the_next_does_not_look_alike(runs):
    told = seen(runs, "skipped")
    for rank in range(4):
        assert told[rank]["error"] == "Mismatch"
        assert "ranks 0, 2 and 3: all_reduce(float32[3], SUM); rank 1: broadcast(float32[5]" in told[rank]["message"]
    assert told[1]["values"][1] == [101.0] * 3  # what it skipped has left its own


def test_another_collective_is_noticed_at_once_and_says_whose_it_is(runs):
    for told in seen(runs, "other").values():
        assert told["error"] == "Mismatch"
        assert "ranks 0, 2 and 3: all_reduce(float32[3], SUM); rank 1: broadcast(float32[3]" in told["message"]
        assert len(told["values"]) == 3


def test_a_killed_rank_says_nothing_and_the_others_do_not_hang(runs):
    told = seen(runs, "killed")
    assert sorted(told) == [0, 2, 3]
    assert {one["error"] for one in told.values()} == {"RanksMissing"}
    assert all("waited in all_reduce(float32[3], SUM)" in one["message"] for one in told.values())
    assert all(len(one["values"]) == 3 for one in told.values())


# --- the flight recorder -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "place", "called", "instead"),
    [("skipped", 4, ALL_REDUCE, BROADCAST), ("other", 3, ALL_REDUCE, ALL_REDUCE)],
)
def test_the_analyzer_names_the_rank_that_calls_another_and_the_line_of_each(runs, case, place, called, instead):
    *before, last = analyzed(runs, case)
    assert dumps(runs, case) == [f"rank_{rank}" for rank in range(4)]
    assert [one.pass_check for one in before] == [True] * (place - 1)
    assert last.collective_seq_id == place
    assert not last.pass_check
    assert list(last.mismatch_collectives) == [1]
    assert last.mismatch_collectives[1].collective_name == "nccl:broadcast"
    assert lines_of(last.collective_frames)[0] == called
    assert lines_of(last.mismatch_collectives[1].collective_frames)[0] == instead
    assert last.mismatch_collectives[1].type_of_mismatch.state.name == "COLLECTIVE_TYPE_MISMATCH"


def test_the_analyzer_names_the_rank_that_never_came(runs):
    """It had ended before the others noticed, and its records are there all the same."""
    calls = analyzed(runs, "skipped alike")
    assert [one.missing_ranks for one in calls] == [None, None, None, {1}]
    assert calls[-1].collective_state == "started"


def test_a_rank_that_fails_by_itself_leaves_its_records_too(runs):
    assert seen(runs, "own error")[2]["error"] == "KeyError"
    calls = analyzed(runs, "own error")
    assert calls[-1].missing_ranks == {2}
    assert lines_of(calls[-1].collective_frames)[0] == ALL_REDUCE


def test_a_killed_rank_leaves_no_records(runs):
    assert dumps(runs, "killed") == ["rank_0", "rank_2", "rank_3"]
    with pytest.raises(AssertionError, match="Missing dump files from ranks"):
        analyzed(runs, "killed")
    asked = [str(runs / "killed" / "flight"), "--allow-incomplete-ranks"]
    command = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", *asked]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "missed FR dumps from ranks ({1})" in done.stdout + done.stderr


def test_calls_of_a_model_have_the_line_of_the_program(runs):
    last = analyzed(runs, "other in fsdp")[-1]
    assert last.collective_seq_id == 4
    assert list(last.mismatch_collectives) == [3]
    step = "model(torch.ones(2, 8, device=device)).sum().backward()"
    assert step in lines_of(last.collective_frames)
    assert step in lines_of(last.mismatch_collectives[3].collective_frames)


def test_records_are_those_of_pytorch_itself(runs):
    """Of the same program on gloo: but for the backend's name, and messages, which PyTorch does not record of gloo."""
    ours, theirs = (seen(runs, case)[2]["recorded"] for case in ("healthy", "gloo"))
    assert ours["version"] == theirs["version"]
    assert list(ours) == list(theirs)
    assert set(theirs["pg_status"]["0"]) == set(ours["pg_status"]["0"])
    assert ours["pg_config"] == {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    collectives = [one for one in ours["entries"] if not one["is_p2p"]]
    assert len(collectives) == 4
    for mine, other in zip(collectives, theirs["entries"], strict=True):
        assert [key for key in mine if key != "duration_ms"] == list(other)  # gloo has no times
        assert all(type(mine[key]) is type(value) for key, value in other.items() if value is not None)
        assert lines_of(mine["frames"]) == lines_of(other["frames"]) != []
        assert mine["frames"][0] == other["frames"][0]
        for same in ("process_group", "collective_seq_id", "is_p2p", "timeout_ms"):
            assert mine[same] == other[same], same
    for mine, other in zip(collectives[:2], theirs["entries"], strict=False):  # gloo's own way with the others
        for same in ("record_id", "op_id", "input_sizes", "input_dtypes", "output_sizes", "output_dtypes"):
            assert mine[same] == other[same], same
    assert collectives[0]["profiling_name"] == theirs["entries"][0]["profiling_name"].replace("gloo", "nccl")


LATE = """
import datetime, os, sys, time
from pathlib import Path

import torch
import torch.distributed as dist

import simgpu

rank, told = int(os.environ["RANK"]), Path(sys.argv[1])
simgpu.enable(count=2)
torch.simgpu.set_device(rank)
soon = datetime.timedelta(seconds=2)
dist.init_process_group(init_method=os.environ["RENDEZVOUS"], rank=rank, world_size=2, timeout=soon)
x = torch.ones(4, device=f"simgpu:{rank}")
dist.all_reduce(x)
if rank == 0:
    try:
        dist.all_reduce(x)
    except RuntimeError as error:
        told.write_text(str(error))
while not told.exists():
    time.sleep(0.1)
"""


def test_a_rank_that_lives_and_does_not_come_in_time_is_not_called_dead(tmp_path):
    script, told = tmp_path / "late.py", tmp_path / "told"
    script.write_text(LATE)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": SIMGPU, "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, str(HERE / "forked.py"), "2", str(script), str(told)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert told.read_text() == (
        "rank 0 waited in all_reduce(float32[4], SUM), which did not complete within its timeout of 2 s, because "
        "rank 1 did not come"
    )
