"""What lesson 12 says of accumulation, meta devices and DTensors, held by real PyTorch: the CPU, and a group that sends
nothing. In a process of its own, because simgpu replaces parts of PyTorch in this one."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

from simgpu import Fabric
from simgpu.profiles import LINKS, NETWORKS
from tests.support.notebooks import ROOT
from utils.common.files import python_path

RANKS, WIDTH, LAYERS = 4, 16, 3
WEIGHTS = LAYERS * WIDTH * WIDTH


def stack():
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)])


def sharded(model, **how):
    for layer in model:
        fully_shard(layer, **how)
    return fully_shard(model, **how)


class Collectives(TorchDispatchMode):
    """Bytes of what is gathered, reduced to parts, and reduced by all, as (all-gather, reduce-scatter, all-reduce)."""

    def __init__(self):
        super().__init__()
        self.bytes = dict.fromkeys(("_allgather_base_", "_reduce_scatter_base_", "allreduce_"), 0)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.removeprefix("c10d::")
        if name in self.bytes:
            tensors = {"_allgather_base_": args[:1], "_reduce_scatter_base_": args[1:2]}.get(name, args[0])
            self.bytes[name] += sum(each.nbytes for each in tensors)
        return func(*args, **(kwargs or {}))


def received(way: str, micro_batches: int) -> float:
    """Bytes that a rank receives for each parameter in the second of two steps, in rings."""
    model = stack()
    if way.startswith("DDP"):
        model = DistributedDataParallel(model)
    else:
        model = sharded(model, reshard_after_forward="kept" not in way)
    for _ in range(2):
        model.zero_grad()
        with Collectives() as seen:
            for last in [False] * (micro_batches - 1) + [True]:
                if "last" in way:
                    model.set_requires_gradient_sync(last)
                if "both passes" in way:
                    model.set_reshard_after_backward(last)
                with model.no_sync() if "no_sync" in way and not last else nullcontext():
                    model(torch.ones(2, WIDTH)).square().mean().backward()
    gathered, scattered, reduced = seen.bytes.values()
    return (gathered + scattered + 2 * reduced) * (RANKS - 1) / RANKS / WEIGHTS


def meta() -> dict:
    """The recipe that begins on the meta device: what is there after each of its steps."""
    with torch.device("meta"):
        model = stack()
    sharded(model)
    on = {str(p.device) for p in model.parameters()}
    model.to_empty(device="cpu")
    held = sum(p.to_local().nbytes for p in model.parameters())
    for layer in model:
        layer.reset_parameters()
    drawn = [p.to_local().abs().max().item() for p in model.parameters()]
    right = stack()
    set_model_state_dict(model, right.state_dict(), options=StateDictOptions(full_state_dict=True))
    parts = [whole.chunk(RANKS)[0] for whole in right.parameters()]
    equal = all(torch.equal(p.to_local(), part) for p, part in zip(model.parameters(), parts, strict=True))
    return {"before": sorted(on), "held": held, "drawn": drawn, "loaded": equal}


def mixed() -> str:
    layer = fully_shard(nn.Linear(8, 8))
    try:
        layer.weight + torch.ones(8, 8)
    except RuntimeError as error:
        return str(error)
    return "it was added"


def precision() -> dict:
    """What is computed, reduced and kept with `MixedPrecisionPolicy(bfloat16, reduce_dtype=float32)`."""
    model = sharded(stack(), mp_policy=MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=torch.float32))
    output = model(torch.ones(2, WIDTH))
    output.float().square().mean().backward()
    weights = {str(p.dtype) for p in model.parameters()}
    return {"output": str(output.dtype), "weights": sorted(weights), "gradient": str(model[0].weight.grad.dtype)}


WAYS = ("DDP", "DDP, no_sync", "FSDP", "FSDP, at the last", "FSDP, at the last, weights kept")
WAYS += ("FSDP, at the last, weights kept in and after both passes",)


def main() -> None:
    from torch.testing._internal.distributed.fake_pg import FakeStore

    told = {}
    # DDP needs an answer to its all-reduces: what it asks for does not depend on how many ranks there are.
    for ways, backend, store, ranks in (
        (WAYS[:2], "gloo", dist.HashStore(), 1),
        (WAYS[2:], "fake", FakeStore(), RANKS),
    ):
        dist.init_process_group(backend, store=store, rank=0, world_size=ranks)
        told |= {way: [received(way, number) for number in (1, 8)] for way in ways}
        if backend == "gloo":
            dist.destroy_process_group()
    print(json.dumps(told | {"meta": meta(), "mixed": mixed(), "precision": precision()}))


@pytest.fixture(scope="module")
def told():
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    environment["PYTHONPATH"] = python_path([str(ROOT / "tests")])
    run = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("way", "bytes_each"), list(zip(WAYS, ((6, 48), (6, 6), (9, 72), (9, 51), (6, 27), (6, 6)), strict=True))
)
def test_what_a_step_of_one_and_of_eight_micro_batches_receives(told, way, bytes_each):
    assert told[way] == list(map(float, bytes_each))


def test_a_model_on_the_meta_device_has_no_memory_until_its_shards_have(told):
    assert told["meta"]["before"] == ["meta"]
    assert told["meta"]["held"] == WEIGHTS * 4 / RANKS
    assert all(0 < each <= WIDTH**-0.5 for each in told["meta"]["drawn"])  # nn.Linear's bound
    assert told["meta"]["loaded"]


def test_a_plain_tensor_and_a_dtensor_are_not_added(told):
    assert "got mixed torch.Tensor and DTensor" in told["mixed"]


def test_a_policy_computes_in_16_bits_and_keeps_gradients_in_32(told):
    assert told["precision"] == {"output": "torch.bfloat16", "weights": ["torch.float32"], "gradient": "torch.float32"}


def test_small_messages_go_by_a_tree_and_large_ones_hardly_grow():
    """Lesson 11: 64 KiB over 512 V100 take 0.1 ms, by a ring 1.1."""
    groups = {count: Fabric(count, count // 8, LINKS["nvlink2"], NETWORKS["100G"], (7, 0)) for count in (8, 512)}
    small = {count: group.seconds("all_reduce", 2**16) for count, group in groups.items()}
    ring = min(groups[512]._ring("all_reduce", 2**16, protocol) for protocol in groups[512]._protocols())
    assert [round(small[512] * 1e3, 1), round(ring * 1e3, 1)] == [0.1, 1.1]
    large = [group.seconds("all_reduce", 496 * 10**6) for group in groups.values()]
    assert large[1] / large[0] < 1.5 < small[512] / small[8]


if __name__ == "__main__":
    main()
