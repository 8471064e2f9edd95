"""torch.distributed on simulated GPUs: PyTorch's own API, unmodified, against one process.

The ranks are forked from one process (forked.py). Under torchrun each loads PyTorch itself: one test does that, too.
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
CLOSE = 1e-6  # of the largest number
CHEAP = (
    "collectives",
    "equal_values",
    "messages",
    "ddp",
    "futures",
    "fsdp",
    "fsdp_from_cpu",
    "tensor_parallel",
    "pipelines",
)
SPLIT = (
    "context_parallel_in_float32",
    "context_parallel_in_bfloat16",
    "ring_attention",
    "ulysses",
    "split_vocabulary",
    "experts",
)
ON_FOUR = (*CHEAP, *SPLIT, "context_parallel_of_modules", "sequence_parallel", "two_dimensions", "checkpoint_saved")


def forked(ranks):
    return [str(HERE / "forked.py"), str(ranks)]


def torchrun(ranks):
    return ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]


def told_by(ranks, folder, checkpoint, *checks, launched=forked, **more):
    """What each rank has told, by rank. AssertionError, with the output, where one has failed."""
    command = [sys.executable, *launched(ranks), str(HERE / "on_ranks.py"), str(folder), *checks]
    # The loopback's address: a machine's own name need not be known where tests run.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": SIMGPU, "GLOO_SOCKET_IFNAME": "lo"}
    environment |= {"CHECKPOINT": str(checkpoint), **more}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stdout + run.stderr
    told = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]
    for rank in told:
        for name, result in rank.items():
            assert name == "backend" or not isinstance(result, str), result
    return told


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return tmp_path_factory.mktemp("checkpoint")


@pytest.fixture(scope="module")
def four(tmp_path_factory, checkpoint):
    return told_by(4, tmp_path_factory.mktemp("four"), checkpoint, *ON_FOUR)


@pytest.fixture(scope="module")
def two(tmp_path_factory, checkpoint, four):  # after four ranks have saved their checkpoint
    return told_by(2, tmp_path_factory.mktemp("two"), checkpoint)


pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("torchrun"),
    pytest.mark.skipif(not torch_private.has_python_backends(), reason="no backends written in Python"),
]


def test_the_backend_is_picked_without_a_name(two):
    assert "simgpu:simccl" in two[0]["backend"]


def both(two, four):
    return ((2, two), (4, four))


def test_collectives_give_what_they_say(two, four):
    for ranks, told in both(two, four):
        mine = [float(rank + 1) for rank in range(ranks)]
        product = float(24 if ranks == 4 else 2)
        for rank, each in enumerate(result["collectives"] for result in told):
            assert each["all_reduce SUM"] == each["functional"] == [sum(mine)] * 2
            assert each["sharded another way"] == [0, 0]
            assert each["all_reduce AVG"] == [sum(mine) / ranks] * 2
            assert each["all_reduce MAX"] == [float(ranks)] * 2
            assert each["all_reduce PRODUCT"] == [product] * 2
            assert each["broadcast"] == [2.0, 2.0]
            assert each["reduce"] == ([sum(mine)] * 2 if rank == 0 else [mine[rank]] * 2)
            assert each["all_gather"] == [[number] * 2 for number in mine]
            assert each["all_gather of numbers"] == [[float(other)] for other in range(ranks)]
            assert each["all_gather_into_tensor"] == [number for number in mine for _ in range(2)]
            assert each["reduce_scatter_tensor"] == [ranks * (2.0 * rank), ranks * (2.0 * rank + 1)]
            assert each["reduce_scatter"] == [sum(mine)] * 2
            assert each["all_gather of unlike sizes"] == [[number] * int(number) for number in mine]
            assert each["reduce_scatter of unlike sizes"] == [(rank + 1) * sum(mine)] * (rank + 1)
            swapped = [number for other, number in enumerate(mine) for _ in range((rank + other) % 3)]
            assert each["all_to_all_single of unlike sizes"] == swapped
            assert each["gather"] == (each["all_gather"] if rank == 0 else "elsewhere")
            assert each["scatter"] == [float(rank)] * 2
            assert each["all_to_all_single"] == [10.0 * other + rank for other in range(ranks)]
            assert each["all_to_all"] == [[10.0 * other + rank] * 2 for other in range(ranks)]
            assert each["new_group"] == ([3.0, 3.0] if rank < 2 else [mine[rank]] * 2)
            assert each["split_group"] == ([[3.0, 3.0], 1 - rank] if rank < 2 else [[7.0, 7.0], rank - 2])
            if rank < 2:
                assert each["in no part"] == 2
            else:
                assert f"rank {rank} is in none of split_ranks" in each["in no part"]


def test_a_group_of_gloo_takes_what_it_takes_of_cudas_tensors_by_copies(two):
    for told in two:
        seen = told["gloo"]
        assert seen["as on the CPU"]
        assert seen["part"]
        assert seen["copies"] == ["d2h", "h2d"], "and no collective of simccl"
        assert (seen["backend"], seen["object"]) == ("gloo", [0, 1])
        assert seen["ddp"] < CLOSE
        assert all("with tensors of the CPU only, as on CUDA" in words for words in seen["refused"]), seen["refused"]
        assert [len(words.splitlines()) for words in seen["refused"]] == [1, 1, 1]


@pytest.fixture(scope="module")
def alone():
    """What one process gives that stands for each rank of two and four in turn."""
    command = [sys.executable, str(HERE / "equal.py"), "2", "4"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": SIMGPU, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_one_process_that_stands_for_equal_ranks_has_their_numbers(two, four, alone):
    for ranks, told in both(two, four):
        for rank, each in enumerate(told):
            for name, given in each["equal_values"].items():
                assert alone[f"{rank} of {ranks}"][name] == given, f"{name} on rank {rank} of {ranks}"


def test_ops_that_nccl_has_not_are_refused(two):
    seen = two[0]["equal_values"]
    can = "It can: SUM, AVG, PRODUCT, MIN, MAX, PREMUL_SUM."
    assert seen["BAND"] == f"cannot reduce with BAND, and neither can NCCL. {can}"
    assert seen["AVG torch.bool"] == "cannot reduce bool with AVG, and neither can NCCL."
    assert seen["half torch.int64"] == "cannot reduce int64 with PREMUL_SUM, and neither can NCCL."
    assert seen["half torch.float32"][0] == [1.0, 2.0]


@pytest.mark.thorough
def test_collectives_are_the_same_where_pytorch_looks_in_detail(two, checkpoint, tmp_path):
    looked_at = told_by(2, tmp_path, checkpoint, "collectives", TORCH_DISTRIBUTED_DEBUG="DETAIL")
    assert [told["collectives"] for told in looked_at] == [told["collectives"] for told in two]


@pytest.mark.thorough  # a cheaper one: test_standalone.py trains under torchrun
def test_under_torchrun_all_is_the_same(two, checkpoint, tmp_path):
    launched = told_by(2, tmp_path, checkpoint, launched=torchrun)
    for ours, theirs in zip(two, launched, strict=True):
        assert theirs.keys() == ours.keys()
        assert all(theirs[name] == ours[name] for name in CHEAP if name != "pipelines")


def test_views_and_other_dtypes_are_reduced_where_they_are(two):
    for told in two:
        seen = told["strided_and_other_dtypes"]
        assert seen.pop("transposed") == [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]]
        assert seen.pop("torch.bool") == [True, True]
        assert set(map(tuple, seen.values())) == {(2, 2)}


def test_objects_travel(two):
    assert all(told["objects"] == [[{"rank": 0}, {"rank": 1}], [{"from": 1}]] for told in two)


def test_messages_arrive_and_the_late_receiver_keeps_the_sender_waiting(two, four):
    for ranks, told in both(two, four):
        for rank, each in enumerate(told):
            assert each["messages"]["to itself"] == [[7.0, 7.0], [14.0, 14.0]]
            assert each["messages"]["got"][:3] == [float((rank - 1) % ranks)] * 3
        assert told[1]["messages"]["got"][3] == 1_000_000
        (sent, end), (received, same) = (each["messages"]["times"] for each in told[:2])
        assert end == same, "both ends are over at the same time"
        assert sent < received, "the sender was ready before the receiver, and waits"


def test_messages_arrive_whose_works_nobody_keeps(two):
    # Gloo gave them up, and the next message waited for ever.
    for rank, told in enumerate(two):
        assert told["let_go"] == [10.0 * (1 - rank) + number for number in range(4)]


def test_works_say_that_they_are_completed(two):
    for rank, told in enumerate(two):
        seen, other = told["asked"], 10.0 + (1 - rank)
        assert seen["before"] is False
        assert seen["all_reduce"] == [True, True, True, 3.0]
        assert seen["completed"] == [True, other]
        assert seen["synchronized"] == [None, other]
        assert (seen["gloo"], seen["gloo, of a GPU"]) == (True, True)


@pytest.mark.parametrize("what", ["ddp", "futures", "fsdp", "fsdp_from_cpu", "tensor_parallel"])
def test_training_on_ranks_equals_training_on_the_whole_batch(two, four, what):
    def numbers(told):
        parts = told.values() if isinstance(told, dict) else told
        return [number for part in parts for number in (part if isinstance(part, list) else [part])]

    for _, told in both(two, four):
        for each in told:
            assert max(numbers(each[what])) < CLOSE, each[what]


def check_split(told, within):
    """Differences of a check of sequences_and_experts.py, and what was counted beside its formula."""
    parts = told["differences"]
    for differences in parts.values() if isinstance(parts, dict) else [parts]:
        assert max(differences) < within, parts
    for name, (counted, formula) in told["counted"].items():
        assert counted == formula, name


@pytest.mark.parametrize("what", SPLIT)
def test_a_split_sequence_vocabulary_or_experts_are_one_device(two, four, what):
    for _, told in both(two, four):
        for each in told:
            check_split(each[what], 2e-2 if "bfloat16" in what else 1e-5)


def test_context_parallel_of_modules_leaves_other_attention_alone(two, four):
    for _, told in both(two, four):
        for each in told:
            assert max(each["context_parallel_of_modules"]) < CLOSE


def test_context_parallel_refuses_what_would_be_silently_wrong(two):
    for told in two:
        seen = told["context_parallel_refused"]
        assert seen["after"] == 0
        for name, words in {
            "dropout": "pass dropout_p=0",
            "mask": "leave it out",
            "float64": "other numbers than float32, bfloat16 and float16",
            "short": "a multiple of 64 on each rank",
            "grouped": "take bfloat16, or repeat the keys",
            "not grouped": "without enable_gqa=True",
            "named": "goes past context_parallel",
            "backward outside": "call backward() inside it",
        }.items():
            assert words in seen["words"][name], name
            assert len(seen["words"][name].splitlines()) == 1


def test_options_of_ddp(two):
    for told in two:
        seen = told["ddp_options"]
        assert max(seen["no_sync"], seen["hook"]) < CLOSE
        assert seen["gradients differed before"]
        assert seen["buffer"] == 0, "rank 0's"


def test_fsdp1(two):
    for told in two:
        seen = told["fsdp1"]
        refused = seen.pop("refused")
        assert ["fully_shard (FSDP2)" in words for words in refused] == [True, True]
        assert [len(words.splitlines()) for words in refused] == [1, 1]
        assert 2 <= seen.pop("bytes of a weight") < 2.01, "four, shared by two ranks, and what blocks round up"
        assert max(seen.values()) < CLOSE, seen


def test_ddp_in_mixed_precision(two):
    assert all(told["ddp_mixed"] < CLOSE for told in two)


def test_ddp_joins_ranks_with_unlike_numbers_of_batches(two):
    assert all(max(told["joined"]) < CLOSE for told in two)


def test_options_of_fsdp(two):
    for told in two:
        seen = told["fsdp_options"]
        assert seen.pop("output") == "torch.bfloat16"
        assert max(seen.values()) < CLOSE, seen


@pytest.mark.parametrize("what", ["sequence_parallel", "two_dimensions"])
def test_a_transformers_block_split_over_a_mesh_is_the_whole_one(two, four, what):
    for _, told in both(two, four):
        for each in told:
            assert max(each[what]) < CLOSE, each[what]


def test_a_checkpoint_of_four_ranks_goes_on_on_two(two, four):
    assert all(told["checkpoint_saved"] >= 5 for told in four), "a file of each rank, and the metadata"
    assert all(max(told["checkpoint_loaded"]) < CLOSE for told in two)


def test_pytorchs_pipelines_have_the_gradients_of_the_whole_model(two, four):
    for _, told in both(two, four):
        for each in told:
            assert len(each["pipelines"]) == 6
            assert max(difference for difference, _ in each["pipelines"].values()) < CLOSE


def test_communication_overlaps_with_the_backward_pass(two):
    for told in two:
        assert 0.3 * told["overlap"]["communication"] < told["overlap"]["hidden"] <= told["overlap"]["communication"]


def test_all_ranks_have_the_same_time_after_they_have_waited_for_each_other(two, four):
    for _, told in both(two, four):
        steps = [{name: seconds for name, (_, seconds) in each["pipelines"].items()} for each in told]
        assert all(each == pytest.approx(steps[0], rel=1e-12) for each in steps)
