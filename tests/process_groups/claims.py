"""The course's claims about PyTorch's ranks, on real ones: gloo on the CPU, no simulated GPU.

    torchrun --standalone --nproc-per-node 2 tests/process_groups/claims.py RESULTS

Each claim asserts, and RESULTS/0.json and so on have "" for a claim that holds, and else how it failed.
"""

import copy
import json
import os
import sys
import threading
import traceback
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as differentiable
from torch import nn
from torch.distributed._functional_collectives import all_to_all_single_autograd
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, loss_parallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

CLAIMS = {}


def claim(*places):
    """A claim, and the cells and explanations that make it."""

    def keep(test):
        CLAIMS[test.__name__] = test
        test.places = places
        return test

    return keep


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))


def batch():
    return torch.randn(8, 8, generator=torch.Generator().manual_seed(1))


def share(x):
    return x.chunk(dist.get_world_size())[dist.get_rank()]


def backward(model, x):
    model.zero_grad()
    model(x).square().mean().backward()


def gradients(model):
    return [getattr(p.grad, "full_tensor", lambda p=p: p.grad)().clone() for p in model.parameters()]


def close(ours, theirs):
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other)


def everywhere_equal(tensor):
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor.contiguous())
    return all(torch.equal(part, parts[0]) for part in parts)


def counted(model):
    """The model in DDP, and a list that gets the number of each bucket that is sent."""
    sent, wrapped = [], DistributedDataParallel(model)

    def hook(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        sent.append(bucket.index())
        mean = bucket.buffer().div_(dist.get_world_size())
        return dist.all_reduce(mean, async_op=True).get_future().then(lambda done: done.value()[0])

    wrapped.register_comm_hook(None, hook)
    return wrapped, sent


def raised(run, kind=RuntimeError):
    try:
        run()
    except kind as error:
        return str(error)
    raise AssertionError("it raises nothing")


def meet(name):
    """Each rank has come here, without a collective."""
    store, world = dist.distributed_c10d._get_default_store(), range(dist.get_world_size())
    store.set(f"{name} {dist.get_rank()}", "here")
    store.wait([f"{name} {rank}" for rank in world])


def beside(call, *arguments):
    """The call in a thread of its own, begun."""
    thread = threading.Thread(target=call, args=arguments, daemon=True)
    thread.start()
    return thread


@claim("13: beyond-words")
def torchrun_tells_each_worker_its_rank():
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    found = [int(os.environ[name]) for name in names]
    assert found == [dist.get_rank(), dist.get_world_size()] * 2
    assert {"MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()


@claim("13: beyond-start-note")
def without_a_name_the_cpu_gets_gloo():
    assert dist.distributed_c10d.get_backend_config().startswith("cpu:gloo")


@claim("11: copies-ddp", "11: copies-end", "11: copies-task")
def ddp_means_the_gradients_and_ranks_stay_equal():
    whole = network()
    backward(whole, batch())
    torch.manual_seed(dist.get_rank())  # DDP begins with the weights of rank 0
    model = network()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(dist.get_rank())
    model = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters())
    backward(model, share(batch()))
    close(gradients(model), gradients(whole))
    for _ in range(3):
        backward(model, share(batch()))
        optimizer.step()
    assert all(everywhere_equal(parameter.detach()) for parameter in model.parameters())


@claim("11: copies-limits")
def batchnorm_sees_the_rows_of_its_rank_and_forward_begins_with_the_buffers_of_rank_0():
    norm = nn.BatchNorm1d(8)
    norm.running_mean.fill_(float(dist.get_rank() + 1))
    model = DistributedDataParallel(norm)
    rows = share(batch())
    output = model(rows)
    torch.testing.assert_close(output, nn.functional.batch_norm(rows, None, None, training=True))
    torch.testing.assert_close(norm.running_mean, 0.9 + 0.1 * rows.mean(0))
    assert not everywhere_equal(norm.running_mean)
    model(rows)
    norm.eval()
    model(rows)
    assert everywhere_equal(norm.running_mean)


@claim("11: copies-limits")
def ddp_counts_ranks_equally_and_a_loss_times_n_and_its_share_counts_samples():
    rows, ranks = batch(), dist.get_world_size()
    pieces = rows.split([3] * (ranks - 1) + [len(rows) - 3 * (ranks - 1)])
    mine = pieces[dist.get_rank()]
    model, whole = DistributedDataParallel(network()), network()
    backward(model, mine)
    (sum(whole(piece).square().mean() for piece in pieces) / ranks).backward()
    close(gradients(model), gradients(whole))
    model.zero_grad()
    (model(mine).square().mean() * ranks * len(mine) / len(rows)).backward()
    backward(whole, rows)
    close(gradients(model), gradients(whole))


@claim("12: shards-end", "11: copies-not")
def ddp_sends_after_each_backward_pass_and_once_with_no_sync():
    for skip, sends in ((False, 4), (True, 1)):
        model, sent = counted(network())
        backward(model, share(batch()))  # the first step's one bucket
        model.zero_grad()
        sent.clear()
        pieces = share(batch()).split(1)
        for number, rows in enumerate(pieces):
            waits = skip and number < len(pieces) - 1
            with model.no_sync() if waits else nullcontext():
                (model(rows).square().mean() / len(pieces)).backward()
        assert len(sent) == sends, sent
        whole = network()
        backward(whole, batch())
        close(gradients(model), gradients(whole))


@claim("11: copies-uneven", "11: copies-uneven-note")
def a_rank_with_a_step_more_waits_for_the_others_and_join_is_a_way_out():
    model, rows = DistributedDataParallel(nn.Linear(8, 1)), torch.ones(2, 8)
    for _ in range(2):
        backward(model, rows)
    third = beside(backward, model, rows) if dist.get_rank() == 0 else None
    meet("the others have ended")
    assert third is None or third.is_alive()
    meet("it has been seen to wait")
    if third is None:
        backward(model, rows)
    else:
        third.join()
    model = DistributedDataParallel(nn.Linear(8, 1))
    with model.join():
        for _ in range(3 if dist.get_rank() == 0 else 2):
            backward(model, rows)


@claim("11: copies-uneven-note")
def a_distributed_sampler_gives_all_ranks_as_many_rows():
    rows = torch.tensor(list(DistributedSampler(range(2 * dist.get_world_size() + 1), shuffle=False)))
    assert len(rows) == 3
    parts = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, rows)
    assert len(set(torch.cat(parts).tolist())) == 2 * dist.get_world_size() + 1  # the others come twice


@claim("12: shards-sends-note", "12: shards-task")
def an_all_reduce_is_a_reduce_scatter_and_an_all_gather():
    world = dist.get_world_size()
    mine = torch.arange(4.0 * world) * (dist.get_rank() + 1)
    at_once, part, joined = mine.clone(), torch.empty(4), torch.empty(4 * world)
    dist.all_reduce(at_once)
    dist.reduce_scatter_tensor(part, mine)
    dist.all_gather_into_tensor(joined, part)
    assert torch.equal(at_once, joined)


@claim("lab12: lab12-ex2-task")
def the_gradient_of_all_reduce_is_summed_as_if_losses_were_added():
    x = torch.ones(2, requires_grad=True)
    differentiable.all_reduce(x * 1.0).sum().backward()
    assert x.grad.tolist() == [float(dist.get_world_size())] * 2


@claim("13: beyond-hang", "13: beyond-hang-real")
def two_that_receive_first_wait_for_each_other_until_one_sends():
    taken, other = torch.empty(2), 1 - dist.get_rank()
    receiving = beside(dist.recv, taken, other)
    meet("both receive")
    assert receiving.is_alive()
    meet("both have been seen to wait")
    dist.send(torch.full((2,), float(dist.get_rank())), other)
    receiving.join()
    assert taken.tolist() == [other] * 2


@claim("13: beyond-hang-real")
def gloo_gives_up_after_the_time_out():
    group = dist.new_group()  # it is of no use afterwards
    if dist.get_rank() == 0:
        work = dist.irecv(torch.empty(2), 1, group=group)
        assert "Timed out waiting 50ms for recv operation" in raised(lambda: work.wait(timedelta(milliseconds=50)))
    dist.barrier()


@claim("13: beyond-hang-real")
def a_batch_of_messages_ends_in_any_order():
    other = 1 - dist.get_rank()
    for receive_first in (True, False):
        taken = torch.empty(2)
        messages = [dist.P2POp(dist.irecv, taken, other)]
        messages.append(dist.P2POp(dist.isend, torch.full((2,), float(dist.get_rank())), other))
        for work in dist.batch_isend_irecv(messages if receive_first else messages[::-1]):
            work.wait()
        assert taken.tolist() == [other] * 2


@claim("13: beyond-hang-real", "10: sched-process")
def a_stage_a_process_and_pytorchs_1f1b_give_the_gradients_of_one_process():
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    torch.manual_seed(5)
    whole = nn.Sequential(*[nn.Linear(8, 8) for _ in range(last + 1)])
    stage = PipelineStage(copy.deepcopy(whole[rank]), rank, last + 1, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    schedule.step(*([batch()] if rank == 0 else []), target=torch.ones(8, 8) if rank == last else None)
    nn.functional.mse_loss(whole(batch()), torch.ones(8, 8)).backward()
    close(gradients(stage.submod), gradients(whole[rank]))


@claim("13: beyond-task")
def send_and_recv_know_no_gradients():
    if dist.get_rank() == 0:
        dist.send(torch.ones(2, requires_grad=True) * 2, 1)
    elif dist.get_rank() == 1:
        taken = torch.zeros(2)
        dist.recv(taken, 0)
        assert taken.tolist() == [2, 2]
        assert not taken.requires_grad


def sharded():
    model = network()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    return fully_shard(model)


@claim("12: shards-fsdp", "12: shards-fsdp-train")
def fully_shard_trains_as_one_process_does_and_each_rank_keeps_its_part():
    whole, model = network(), sharded()
    for name, parameter in model.named_parameters():
        assert isinstance(parameter, DTensor), name
        assert parameter.to_local().numel() * dist.get_world_size() == parameter.numel()
    optimizers = [torch.optim.Adam(each.parameters(), lr=0.01) for each in (whole, model)]
    for _ in range(3):
        backward(whole, batch())
        backward(model, share(batch()))
        for optimizer in optimizers:
            optimizer.step()
    close([p.full_tensor() for p in model.parameters()], whole.parameters())
    moment = optimizers[1].state[next(model.parameters())]["exp_avg"]
    assert moment.to_local().numel() * dist.get_world_size() == moment.numel()
    assert [type(layer).__name__ for layer in model] == ["FSDPLinear", "Tanh", "FSDPLinear"]


@claim("12: shards-read", "12: shards-inside")
def a_sharded_parameter_and_a_plain_tensor_do_not_mix_and_full_tensor_joins():
    layer = fully_shard(nn.Linear(4, 4))
    assert "got mixed torch.Tensor and DTensor" in raised(lambda: layer.weight + torch.ones(4, 4))
    assert layer.weight.full_tensor().shape == (4, 4)
    seen = []
    layer.register_forward_pre_hook(lambda module, given: seen.append(module.weight.shape))
    layer(torch.ones(1, 4))


def collectives(run):
    with CommDebugMode() as counts:
        run()
    return {key.__name__.strip("_").removesuffix("_"): n for key, n in counts.get_comm_counts().items() if n}


@claim("12: shards-fsdp", "12: shards-overlap", "12: shards-end")
def fsdp_gathers_each_layer_twice_and_scatters_its_gradients_once():
    model = sharded()
    found = collectives(lambda: backward(model, share(batch())))
    assert sum(number for name, number in found.items() if "allgather" in name or "all_gather" in name) == 4, found
    assert sum(number for name, number in found.items() if "reduce_scatter" in name) == 2, found


@claim("12: shards-end", "explanation 12/2")
def fsdp_scatters_gradients_after_each_micro_batch_unless_told_not_to():
    pieces, whole = share(batch()).split(2), network()
    backward(whole, batch())
    for at_the_end in (False, True):
        model = sharded()

        def step(model=model, at_the_end=at_the_end):
            for number, rows in enumerate(pieces):
                model.set_requires_gradient_sync(number == len(pieces) - 1 or not at_the_end)
                (model(rows).square().mean() / len(pieces)).backward()

        found = collectives(step)
        scattered = sum(number for name, number in found.items() if "reduce_scatter" in name)
        assert scattered == 2 * (1 if at_the_end else len(pieces)), found
        close(gradients(model), gradients(whole))


@claim("12: shards-inside", "12: shards-tensor-dtensor", "12: shards-inside")
def columns_then_rows_need_one_sum_forward_and_one_backward():
    torch.manual_seed(2)
    whole = nn.ModuleDict({"first": nn.Linear(8, 16), "second": nn.Linear(16, 8)})
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    cut = parallelize_module(copy.deepcopy(whole), mesh, {"first": ColwiseParallel(), "second": RowwiseParallel()})

    def run(model, x):
        return model["second"](nn.functional.gelu(model["first"](x)))

    x, same = (batch().requires_grad_() for _ in range(2))
    outputs = []
    forward = collectives(lambda: outputs.append(run(cut, x)))
    back = collectives(lambda: outputs[0].square().mean().backward())
    assert list(forward.values()) == [1], forward
    assert list(back.values()) == [1], back
    assert "all_reduce" in next(iter(forward))
    assert "all_reduce" in next(iter(back))
    expected = run(whole, same)
    expected.square().mean().backward()
    close([outputs[0], x.grad], [expected, same.grad])
    assert cut["first"].weight.placements[0].is_shard(0)
    assert cut["second"].weight.placements[0].is_shard(1)


@claim("lab03: lab03-ex1-task", "12: shards-sends")
def clip_grad_norm_of_a_sharded_model_is_that_of_the_whole():
    whole, model = network(), sharded()
    backward(whole, batch())
    backward(model, share(batch()))
    norms = [nn.utils.clip_grad_norm_(each.parameters(), 1e-3) for each in (whole, model)]
    torch.testing.assert_close(norms[1].full_tensor(), norms[0])
    close(gradients(model), gradients(whole))


@claim("16: attend-loss", "explanation 16/1")
def a_loss_of_sharded_logits_makes_three_all_reduces_and_gathers_nothing():
    torch.manual_seed(0)
    head, x, y = nn.Linear(8, 12, bias=False), torch.randn(6, 8), torch.randint(12, (6,))
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    cut = parallelize_module(copy.deepcopy(head), mesh, ColwiseParallel(use_local_output=False))
    with loss_parallel():
        logits, losses = cut(x), []
        forward = collectives(lambda: losses.append(nn.functional.cross_entropy(logits, y)))
        losses[0].backward()
    assert list(forward.values()) == [3], forward
    assert "all_reduce" in next(iter(forward))
    expected = nn.functional.cross_entropy(head(x), y)
    expected.backward()
    close([losses[0].full_tensor(), cut.weight.grad.full_tensor()], [expected, head.weight.grad])


@claim("17: experts-exchange-run", "explanation 17/2")
def all_to_all_single_fills_a_tensor_without_gradients():
    rows = torch.ones(4, 3, requires_grad=True)
    received = torch.empty(4, 3)
    dist.all_to_all_single(received, rows * 2.0, [2, 2], [2, 2])
    assert not received.requires_grad
    assert received.grad_fn is None


@claim("17: experts-gradient-task", "17: experts-own")
def the_gradient_of_an_all_to_all_is_one_with_splits_swapped():
    rank = dist.get_rank()
    send, receive = ([1, 3], [1, 2]) if rank == 0 else ([2, 0], [3, 0])
    rows = torch.ones(sum(send), 3, requires_grad=True)
    received = all_to_all_single_autograd(rows, receive, send, dist.group.WORLD)
    gradient = 10.0 * rank + torch.arange(sum(receive))[:, None].expand(-1, 3)
    received.backward(gradient)
    back = torch.empty(sum(send), 3)
    dist.all_to_all_single(back, gradient.contiguous(), send, receive)
    torch.testing.assert_close(rows.grad, back)


def main(folder):
    dist.init_process_group()
    told = {}
    for name, test in CLAIMS.items():
        try:
            test()
            told[name] = ""
        except BaseException:
            told[name] = traceback.format_exc()
            break  # the other rank may be elsewhere
    Path(folder, f"{os.environ['RANK']}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
