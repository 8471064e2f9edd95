"""Lab 18's second function reads what simgpu's flight recorder has written of real ranks."""

import nbformat
import pytest
import torch
import torch.distributed as dist

import simgpu
from simgpu import faults
from tests.support.answers import answers_of
from tests.support.notebooks import source_of
from utils.ranks import ranks

pytestmark = pytest.mark.slow


def sums():
    """Sums from lines of their own. The second and the third look alike, so that a rank without the second goes on."""
    device = f"simgpu:{dist.get_rank()}"
    try:
        dist.all_reduce(torch.ones(1, device=device))
        dist.all_reduce(torch.ones(2, device=device))
        dist.all_reduce(torch.ones(2, device=device))
        dist.all_reduce(torch.ones(3, device=device))
        dist.all_reduce(torch.ones(4, device=device))
    except RuntimeError:
        pass
    return simgpu.flight_recorder() | {"rank": dist.get_rank()}


def functions() -> dict:
    notebook = nbformat.read(source_of("lab18"), 4)
    [model] = [cell.source for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == "ex2"]
    answers = {"the model answer": model} | {one.name: one.code for one in answers_of("lab18", "right")}
    found = {}
    for name, code in answers.items():
        names: dict = {"__name__": "__main__"}
        if "def why_it_hangs" in code:
            exec(code, names)
            found[name] = names["why_it_hangs"]
    return found


@pytest.mark.parametrize(
    ("fault", "cause"),
    [(faults.SkippedCollective(rank=2, number=2), "skipped"), (faults.OtherCollective(rank=1, number=3), "other")],
)
def test_the_rank_at_fault_is_found_in_simgpus_records(fault, cause):
    dumps = ranks(4, faults=(fault,)).run(sums)
    for name, why_it_hangs in functions().items():
        found = why_it_hangs(dumps)
        assert (found["rank"], found["cause"]) == (fault.rank, cause), name
        assert found["line"].rpartition(":")[0] == __file__, name
