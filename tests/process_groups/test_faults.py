"""Misuses of torch.distributed: each is answered within seconds, by one message that says who did what, and what helps.

Each runs on three ranks. Where PyTorch itself refuses, the words are its own, and the line after them says what to do.
"""

import os
import re
import threading
import time

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from simgpu import torch_private, waiting
from utils.ranks import RankError, ranks

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("torchrun"),
    pytest.mark.skipif(not torch_private.has_python_backends(), reason="no backends written in Python"),
]


def me():
    return dist.get_rank()


def mine(count=6, dtype=torch.float32, gpu=None):
    return torch.ones(count, dtype=dtype, device=f"simgpu:{me() if gpu is None else gpu}")


def parts(*counts):
    return [mine(count) for count in counts]


def each_in_its_order(*calls):
    for call in calls if me() == 0 else reversed(calls):
        call()


def of_a_group_that_is_another_on_each_rank():
    dist.all_reduce(mine(), group=dist.new_group([0, 1] if me() == 0 else [0, 1, 2]))


def from_a_root_outside():
    group = dist.new_group([0, 1])
    if me() < 2:
        dist.broadcast(mine(), 2, group=group)


def after_the_end():
    x = mine()
    dist.destroy_process_group()
    dist.all_reduce(x)


def ended_twice():
    dist.destroy_process_group()
    dist.destroy_process_group()


def around_a_ring(*calls):
    for call in calls:
        call(mine(), (me() + (1 if call is dist.send else -1)) % 3)


def in_a_batch(*calls):
    for work in dist.batch_isend_irecv([dist.P2POp(call, mine(), (me() - 1) % 3) for call in calls]):
        work.wait()


def with_one_missing_and_one_slow_to_look():
    if me() == 0:
        look = waiting._Guard.why_broken
        waiting._Guard.why_broken = lambda *its: time.sleep(4) or look(*its)  # by then rank 2 has ended too
    if me() != 1:
        dist.barrier()


def without_a_backward_pass_on_one():
    model = DistributedDataParallel(torch.nn.Linear(2, 2).to("simgpu"))
    loss = model(mine(2)).sum()
    if me() > 0:
        loss.backward()


SAME = "the ranks of a group have to call the same collectives in the same order, and did not. "
ALL = "All ranks of a group must make the same calls, and every send needs a receive."
EACH = "there has to be one for each rank of the group"
RING = "rank # waited in {0}=#), which can never complete: rank # waits in {0}=#) (its wait #); rank # waits in {0}=#) "
RING += "(its wait #)|" + ALL + "|rank # waited in {0}=#).|rank # waited in {0}=#)."
RECEIVES = "recv(float32[6], src"
# By name: what the ranks do, and what is said of it; lines are parted by |, and # is any digit.
FAULTS = {
    # collectives that do not fit together
    "another shape": (
        lambda: dist.all_reduce(mine(6 + me())),
        f"ranks 0 to 2: Mismatch: {SAME}rank 0: all_reduce(float32[6], SUM); "
        "rank 1: all_reduce(float32[7], SUM); rank 2: all_reduce(float32[8], SUM)",
    ),
    "another dtype": (
        lambda: dist.all_reduce(mine(dtype=torch.float16 if me() == 1 else torch.float32)),
        f"ranks 0 to 2: Mismatch: {SAME}ranks 0 and 2: all_reduce(float32[6], SUM); "
        "rank 1: all_reduce(float16[6], SUM)",
    ),
    "another reduction": (
        lambda: dist.all_reduce(mine(), dist.ReduceOp.MAX if me() == 2 else dist.ReduceOp.SUM),
        f"ranks 0 to 2: Mismatch: {SAME}ranks 0 and 1: all_reduce(float32[6], SUM); "
        "rank 2: all_reduce(float32[6], MAX)",
    ),
    "another root": (
        lambda: dist.broadcast(mine(), me()),
        f"ranks 0 to 2: Mismatch: {SAME}rank 0: broadcast(float32[6], from 0); "
        "rank 1: broadcast(float32[6], from 1); rank 2: broadcast(float32[6], from 2)",
    ),
    "another order": (
        lambda: each_in_its_order(lambda: dist.all_reduce(mine()), lambda: dist.broadcast(mine(), 0)),
        f"ranks 0 to 2: Mismatch: {SAME}rank 0: all_reduce(float32[6], SUM); "
        "ranks 1 and 2: broadcast(float32[6], from 0)",
    ),
    "another collective": (
        lambda: dist.barrier() if me() else dist.all_reduce(mine()),
        f"ranks 0 to 2: Mismatch: {SAME}rank 0: all_reduce(float32[6], SUM); ranks 1 and 2: barrier()",
    ),
    "objects in lists of another length": (
        lambda: dist.broadcast_object_list([1, 2] if me() == 0 else [None], src=0),
        f"ranks 0 to 2: Mismatch: {SAME}rank 0: broadcast(int64[2], from 0); "
        "ranks 1 and 2: broadcast(int64[1], from 0)",
    ),
    "split sizes that do not fit together": (
        lambda: dist.all_to_all_single(mine(), mine(), [2, 2, 2], [2, 1, 3] if me() == 0 else [2, 2, 2]),
        "ranks 0 to 2: Mismatch: in all_to_all, rank 0 has 1 for rank 1, which expects 2: place 1 of the former's "
        "input sizes has to be place 0 of the latter's output sizes.",
    ),
    # ranks that do not come
    "one rank missing": (
        lambda: dist.all_reduce(mine()) if me() != 1 else None,
        f"ranks 0 and 2 waited in all_reduce(float32[6], SUM), which can never complete: rank 1 has ended|{ALL}",
    ),
    "a barrier with one rank missing": (
        lambda: dist.barrier() if me() != 1 else None,
        f"ranks 0 and 2 waited in barrier(), which can never complete: rank 1 has ended|{ALL}",
    ),
    "one rank without a backward pass": (
        without_a_backward_pass_on_one,
        f"ranks 1 and 2 waited in all_reduce(float32[6], SUM), which can never complete: rank 0 has ended|{ALL}",
    ),
    "one rank that died": (
        lambda: os._exit(1) if me() == 1 else dist.barrier(),
        "rank 1 ended with exit code 1 before the function returned, as with os._exit(1).|"
        "ranks 0 and 2 waited in barrier().",
    ),
    # sizes
    "an output of another size": (
        lambda: dist.all_gather_into_tensor(mine(7), mine(2)),
        "ranks 0 to 2: ValueError: all_gather's output is float32[7], and the part of each rank is float32[2]: it has "
        "to be 3 times as large",
    ),
    "an input that cannot be shared out": (
        lambda: dist.reduce_scatter_tensor(mine(2), mine(7)),
        "ranks 0 to 2: ValueError: reduce_scatter's input is float32[7], and the part of each rank is float32[2]: it "
        "has to be 3 times as large",
    ),
    "too few outputs": (
        lambda: dist.all_gather(parts(2, 2), mine(2)),
        f"ranks 0 to 2: ValueError: all_gather's list of outputs has 2 tensors: {EACH}, 3 in all",
    ),
    "outputs that are not alike": (
        lambda: dist.all_gather(parts(2, 2, 4), mine(2)),
        "rank 2: ValueError: all_gather's list of outputs has float32[4] at place 2, where float32[2] goes or comes "
        "from: these two have to be alike|"
        "ranks 0 and 1 waited in all_gather(parts of [2, 2, 4] numbers).",
    ),
    "too few parts to scatter": (
        lambda: dist.scatter(mine(2), parts(2, 2) if me() == 0 else None, src=0),
        f"rank 0: ValueError: scatter's list of inputs has 2 tensors: {EACH}, 3 in all|"
        "ranks 1 and 2 waited in scatter(float32[2], from 0).",
    ),
    "nothing to scatter": (
        lambda: dist.scatter(mine(2), None, src=0),
        "rank 0: ValueError: Argument ``scatter_list`` must be specified on source rank.|"
        "ranks 1 and 2 waited in scatter(float32[2], from 0).",
    ),
    "split sizes that are not the whole": (
        lambda: dist.all_to_all_single(mine(), mine(), [2, 2, 2], [1, 1, 1]),
        "ranks 0 to 2: ValueError: all_to_all's input_split_sizes are [1, 1, 1], and its input has 6 rows: "
        f"{EACH}, and their sum is all rows",
    ),
    "rows that cannot be split": (
        lambda: dist.all_to_all_single(mine(7), mine(7)),
        "ranks 0 to 2: ValueError: all_to_all's output has 7 rows: 3 ranks need as many each, or output_split_sizes",
    ),
    "an output that is not contiguous": (
        lambda: dist.all_gather_into_tensor(torch.zeros(2, 3, device="simgpu").t(), mine(2)),
        "ranks 0 to 2: ValueError: all_gather's output is not contiguous: use a new tensor, or .contiguous()",
    ),
    # places
    "a tensor on the CPU": (
        lambda: dist.all_reduce(torch.ones(2)),
        "ranks 0 to 2: RuntimeError: No backend type associated with device type cpu|"
        "This group works on GPUs: move the tensor to a GPU first.",
    ),
    "all on the same GPU": (
        lambda: dist.all_reduce(mine(gpu=0)),
        "ranks 0 to 2: Mismatch: ranks 0, 1 and 2 all gave all_reduce(float32[6], SUM) tensors on the same GPU, "
        "simgpu:0. Each rank has one of its own: torch.simgpu.set_device(int(os.environ['LOCAL_RANK'])).",
    ),
    "an output on another GPU": (
        lambda: dist.all_gather([mine(2, gpu=1) for _ in range(3)], mine(2, gpu=2)),
        "ranks 0 to 2: RuntimeError: simccl needs all tensors of a call on one simulated GPU, and these are on "
        "simgpu:1, simgpu:2.",
    ),
    # ranks that there are not
    "a send without a receiver": (
        lambda: dist.send(mine(), 7),
        "ranks 0 to 2: ValueError: cannot send to rank 7: ranks of this group are 0 to 2",
    ),
    "a send to a rank below 0": (
        lambda: dist.send(mine(), -1),
        "ranks 0 to 2: ValueError: cannot send to rank -1: ranks of this group are 0 to 2",
    ),
    "a receive without a sender": (
        lambda: dist.recv(mine(), 7),
        "ranks 0 to 2: ValueError: cannot receive from rank 7: ranks of this group are 0 to 2",
    ),
    "a receive from itself": (
        lambda: dist.recv(mine(), me()),
        "ranks 0 to 2: ValueError: cannot receive from itself: the tensor is there already, copy_ moves it",
    ),
    "a root that there is not": (
        lambda: dist.broadcast(mine(), 5),
        "ranks 0 to 2: ValueError: broadcast has rank 5 for its root: ranks of this group are 0 to 2",
    ),
    "a root that is not in the group": (
        from_a_root_outside,
        "ranks 0 and 1: ValueError: Global rank 2 is not part of group "
        "<torch.distributed.distributed_c10d.ProcessGroup object>|"
        "src, dst and root are global rank numbers, and these ranks must be in the group.",
    ),
    "a group of ranks that there are not": (
        lambda: dist.new_group([0, 7]),
        "ranks 0 to 2: ValueError: Rank 7 is out of range. Valid ranks are 0 to 2 (world_size=3)",
    ),
    "a mesh that is larger than the world": (
        lambda: dist.init_device_mesh("simgpu", (2, 2)),
        "ranks 0 to 2: RuntimeError: Mesh should not be bigger than default world size 3, but found 4 ranks!",
    ),
    # messages
    "all receive first": (lambda: around_a_ring(dist.recv, dist.send), RING.format(RECEIVES)),
    "all send first": (lambda: around_a_ring(dist.send, dist.recv), RING.format("send(float32[6], dst")),
    "a batch that only receives": (lambda: in_a_batch(dist.irecv), RING.format(RECEIVES)),
    "an empty batch": (
        lambda: in_a_batch(),
        "ranks 0 to 2: IndexError: list index out of range|The list is empty: do not call this when there is nothing "
        "to exchange.",
    ),
    "no rank receives": (
        lambda: dist.send(mine(), 1) if me() == 0 else None,
        "rank 0 waited in send(float32[6], dst=1), which can never complete: ranks 1 and 2 have ended|" + ALL,
    ),
    "a message of another shape": (
        lambda: [lambda: dist.send(mine(4), 1), lambda: dist.recv(mine(8), 0), int][me()](),
        "ranks 0 and 1: Mismatch: rank 0 sends float32[4] to rank 1, which receives it as float32[8]: make them alike.",
    ),
    "a message of another dtype": (
        lambda: [lambda: dist.send(mine(dtype=torch.int64), 1), lambda: dist.recv(mine(), 0), int][me()](),
        "ranks 0 and 1: Mismatch: rank 0 sends int64[6] to rank 1, which receives it as float32[6]: make them alike.",
    ),
    "from any rank": (
        lambda: dist.recv(mine()),
        "ranks 0 to 2: RuntimeError: simccl has no receive from any rank: who comes first is chance, and so would be "
        "all times after it. Name the sender: dist.recv(tensor, src=...).",
    ),
    # groups and their life
    "another group on each rank": (
        of_a_group_that_is_another_on_each_rank,
        "|".join(
            f"rank {rank}: Mismatch: new_group was given {its} on rank {rank}, and {others} on rank {other}: all ranks "
            "have to make the same groups in the same order"
            for rank, its, other, others in (
                (0, [0, 1], 1, [0, 1, 2]),
                (1, [0, 1, 2], 0, [0, 1]),
                (2, [0, 1, 2], 0, [0, 1]),
            )
        ),
    ),
    "a group that one rank does not make": (
        lambda: dist.new_group([0, 1]) if me() != 1 else None,
        "rank 0 waited in new_group() of ranks 0 and 1, which can never complete: ranks 1 and 2 have ended|" + ALL,
    ),
    "begun twice": (
        lambda: dist.init_process_group(),
        "ranks 0 to 2: ValueError: trying to initialize the default process group twice!|"
        "These ranks already have a process group: remove this line.",
    ),
    "ended twice": (
        ended_twice,
        "ranks 0 to 2: AssertionError: Process group cannot be None|The process group has already been destroyed.",
    ),
    "after the end": (
        after_the_end,
        "ranks 0 to 2: ValueError: Default process group has not been initialized, please make sure to call "
        "init_process_group.|The process group has already been destroyed: destroy it only at the very end.",
    ),
    # what cannot be done
    "a reduction of bits": (
        lambda: dist.all_reduce(mine(), dist.ReduceOp.BAND),
        "ranks 0 to 2: ValueError: simccl cannot reduce with BAND, and neither can NCCL. It can: SUM, AVG, PRODUCT, "
        "MIN, MAX, PREMUL_SUM.",
    ),
    "an object that cannot be pickled": (
        lambda: dist.all_gather_object([None] * 3, threading.Lock() if me() == 1 else "text"),
        "rank 1: TypeError: cannot pickle '_thread.lock' object|"
        "Objects are sent as pickles: send something that can be pickled, such as a state_dict.|"
        "ranks 0 and 2 waited in all_gather(int64[1]).",
    ),
    "no place for all objects": (
        lambda: dist.all_gather_object([None] * 2, "text"),
        "ranks 0 to 2: IndexError: list assignment index out of range|"
        "The list needs an entry for each rank: [None] * world_size.",
    ),
    "models that are not alike": (
        lambda: DistributedDataParallel(torch.nn.Linear(2 + (me() > 0), 2).to("simgpu")),
        "rank 1: RuntimeError: [1]: params[0] in this process with sizes [2, 3] appears not to match sizes of the same "
        "param in process 0.|rank 2: RuntimeError: [2]: params[0] in this process with sizes [2, 3] appears not to "
        "match sizes of the same param in process 0.|rank 0 waited in broadcast(float32[6], from 0).",
    ),
}


def impatient(fault):
    waiting.PATIENCE, waiting.LOOK = 0.5, 0.3
    fault()


def pattern(text):
    return re.escape(text).replace(r"\#", r"\d").replace(r"\.\*", ".*").replace(r"\|", "\n")


@pytest.mark.parametrize("name", FAULTS)
def test_a_misuse_is_answered_in_one_message(name):
    fault, says = FAULTS[name]
    with pytest.raises(RankError) as raised:
        ranks(3).run(impatient, fault)
    lines = str(raised.value).splitlines()
    told = "\n".join(line.strip() for line in lines if "test_faults.py, line " not in line)
    assert re.fullmatch(pattern(says), told, re.DOTALL), told
    assert any("test_faults.py, line " in line for line in lines) or "exit code" in told


def test_a_rank_that_ended_because_another_had_is_not_called_missing():
    with pytest.raises(RankError) as raised:
        ranks(3).run(impatient, with_one_missing_and_one_slow_to_look)
    told = {
        rank: text.strip().splitlines()[-1].partition("which ")[2] for rank, text in raised.value.tracebacks.items()
    }
    assert told == dict.fromkeys((0, 2), "can never complete: rank 1 has ended")


def test_there_are_at_least_thirty_misuses():
    assert len(FAULTS) >= 30


def averaged():
    numbers = torch.arange(3, device="simgpu") + me()
    dist.all_reduce(numbers, dist.ReduceOp.AVG)
    return numbers.tolist()


def test_a_mean_of_whole_numbers_is_a_whole_number():
    assert ranks(2).run(averaged) == [[0, 1, 2]] * 2


def outside(members):
    group = dist.new_group(members)
    shared = mine(1)
    dist.all_reduce(shared, group=group)
    return shared.item()


def test_a_rank_outside_of_a_group_is_warned_and_left_as_it_is(capsys):
    assert ranks(3).run(outside, [0, 1]) == [2, 2, 1]
    assert "rank 2: " in capsys.readouterr().out


def test_who_waits_for_a_message_prints_nothing_meanwhile(capfd):
    def late():
        if me() == 1:
            threading.Event().wait(2.5)
        around_a_ring(dist.send, dist.recv) if me() else around_a_ring(dist.recv, dist.send)

    ranks(3).run(late)
    assert capfd.readouterr().out == ""


def with_data_that_take_their_time():
    waiting.PATIENCE, waiting.LOOK = 0.1, 0.05
    backend = dist.group.WORLD._get_backend(torch.device("simgpu"))
    collective = backend._collective

    def slowly(name, inputs, outputs, data, *details, **more):
        def move():
            time.sleep(3)
            data()

        return collective(name, inputs, outputs, move, *details, **more)

    backend._collective = slowly
    x = mine(2)
    dist.all_reduce(x)
    return x.tolist()


def with_a_slow_agreement():
    waiting.PATIENCE, waiting.LOOK = 0.1, 0.05
    waits = dist.group.WORLD._get_backend(torch.device("simgpu"))._group.waiting
    exchanged = waits.exchanged

    def slowly(mine):
        time.sleep(3)
        return exchanged(mine)

    waits.exchanged = slowly
    x = mine(2)
    dist.all_reduce(x)
    return x.tolist()


def test_ranks_that_have_all_come_may_be_slow():
    """They wait in the same call, each in its first wait: a busy computer, a profiler that prints."""
    assert ranks(3).run(with_a_slow_agreement) == [[3.0, 3.0]] * 3


def test_numbers_that_take_long_to_move_are_not_taken_for_ranks_that_do_not_come():
    """All have come, and the computer is busy: that is not waiting for somebody."""
    assert ranks(3).run(with_data_that_take_their_time) == [[3.0, 3.0]] * 3
