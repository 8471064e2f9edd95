"""What collectives give where all ranks hold the same numbers: on real ranks, and on one process that stands for all.

python utils/simgpu/tests/process_groups/equal.py 2 4  # each rank of groups of 2 and 4, one process at a time, as JSON
"""

import json
import sys

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.distributed_c10d import _coalescing_manager
from torch.testing._internal.distributed.fake_pg import FakeStore

import simgpu

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
DTYPES = (*FLOATS, torch.int32, torch.int64, torch.uint8, torch.bool)
NAMES = ("SUM", "AVG", "PRODUCT", "MIN", "MAX")


def reductions(device) -> dict[str, object]:
    """The op of each name; that which multiplies first, with a number and with a tensor."""
    ops = {name: getattr(dist.ReduceOp, name) for name in NAMES}
    premul = dist._make_nccl_premul_sum
    return ops | {"half": premul(0.5), "double": premul(torch.tensor(2.0, device=device))}


def told(call) -> object:
    """What a call gives, or the words with which it is refused."""
    try:
        return call()
    except (RuntimeError, TypeError, ValueError) as error:
        return str(error).partition("\n")[0].rpartition("simccl ")[2]


def same_values(device, rank: int, ranks: int) -> dict:
    """The results of one rank, by collective, op and dtype."""

    def reduced(op, dtype):
        def numbers(count=2):
            return torch.arange(1, count + 1, device=device).to(dtype)

        everywhere, at_one = numbers(), numbers()
        dist.all_reduce(everywhere, op)
        dist.reduce(at_one, 1, op)
        share, other, both = numbers(), numbers(), [numbers(), numbers(3)]
        dist.reduce_scatter_tensor(share, numbers(2 * ranks), op)
        dist.reduce_scatter(other, [numbers() for _ in range(ranks)], op)
        with _coalescing_manager():
            for each in both:
                dist.all_reduce(each, op)
        return [each.tolist() for each in (everywhere, at_one, share, other, *both)]

    results = {
        f"{name} {dtype}": told(lambda op=op, dtype=dtype: reduced(op, dtype))
        for name, op in reductions(device).items()
        for dtype in DTYPES
    }
    for name in ("BAND", "BOR", "BXOR"):
        results[name] = told(lambda name=name: reduced(getattr(dist.ReduceOp, name), torch.int64))

    def numbers(count=2):
        return torch.arange(1.0, count + 1, device=device)

    turned = torch.tensor([1 + 2j, 3 - 1j], device=device)
    dist.all_reduce(turned)
    results["complex"] = torch.view_as_real(turned).tolist()
    columns = torch.arange(6.0, device=device).view(2, 3).t()
    dist.all_reduce(columns, dist.ReduceOp.PRODUCT)
    results["not contiguous"] = columns.tolist()
    many = [numbers(), numbers(3)]
    dist.all_reduce_coalesced(many, dist.ReduceOp.PRODUCT)
    results["coalesced"] = [each.tolist() for each in many]
    wholes = [numbers(ranks), numbers(2 * ranks)]
    shares = functional.reduce_scatter_single_coalesced(wholes, "sum", [0, 0], dist.group.WORLD)
    results["scattered together"] = [share.tolist() for share in shares]
    parts, share = [numbers() for _ in range(ranks)], numbers()
    dist.all_gather(parts, numbers())
    results["all_gather"] = [part.tolist() for part in parts]
    dist.gather(3 * numbers(), parts if rank == 0 else None, 0)
    results["gather"] = [part.tolist() for part in parts]
    dist.scatter(share, [each * numbers() for each in range(ranks)] if rank == 0 else None, 0)
    # What a rank other than the root is given comes from the root, of which one process knows nothing.
    results["scatter"] = share.tolist() if rank == 0 else "from elsewhere"
    same = numbers()
    dist.broadcast(same, 1)
    results["broadcast"] = same.tolist()
    swapped = numbers(2 * ranks)
    dist.all_to_all_single(swapped, numbers(2 * ranks))
    results["all_to_all_single"] = swapped.tolist()
    dist.all_to_all(parts, [each * numbers() for each in range(ranks)])
    results["all_to_all"] = [part.tolist() for part in parts]
    return results


def main(*sizes: str) -> None:
    simgpu.enable(count=1)
    results = {}
    for ranks in map(int, sizes):
        for rank in range(ranks):
            dist.init_process_group("simccl", store=FakeStore(), rank=rank, world_size=ranks)
            results[f"{rank} of {ranks}"] = same_values(torch.device("simgpu:0"), rank, ranks)
            dist.destroy_process_group()
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
