"""Lab 18's made-up traces and dumps have PyTorch's format: its analyzer reads them, a real trace has the keys."""

import gzip
import json
from itertools import pairwise
from pathlib import Path

import simgpu
from utils.kits.job_dumps import JobHang, dumped_job, transformer_calls
from utils.kits.job_traces import JobFault, kernels_of, seconds_of_job, traced_job

TRACE = Path(simgpu.__file__).parents[2] / "benchmarks" / "data" / "traces" / "a100_rank0_of_2_one_step.json.gz"


def analyzed(dumps):
    from torch.distributed.flight_recorder.components.builder import build_db
    from torch.distributed.flight_recorder.components.config_manager import JobConfig

    asked = JobConfig().parse_args(["nowhere", "--allow-incomplete-ranks"])
    return build_db({dump["host_name"]: dump for dump in dumps}, asked, "2.10").collectives


def test_pytorchs_analyzer_finds_the_call_that_differs():
    calls = transformer_calls(steps=4, layers=2)
    dumps = dumped_job(3, 3, calls, JobHang(rank=5, cause="skipped", call=19))
    found = {
        (call.pg_desc.partition(":")[2], rank, other.type_of_mismatch.state.name)
        for call in analyzed(dumps)
        for rank, other in (call.mismatch_collectives or {}).items()
        if other.type_of_mismatch
    }
    # The calls that only wait count as mismatches of another kind.
    assert [(desc, rank) for desc, rank, kind in found if kind == "COLLECTIVE_TYPE_MISMATCH"] == [("tensor", 5)]


def test_a_real_trace_has_what_the_lab_reads():
    with gzip.open(TRACE, "rt") as file:
        events = json.load(file)["traceEvents"]
    real = {}
    for event in events:
        if event.get("cat") in ("kernel", "cuda_runtime"):
            kind = event["cat"], "Process Group Ranks" in event["args"]
            real.setdefault(kind, []).append(event)
    for event in traced_job(2, 4)[0]["traceEvents"]:
        if event["cat"] == "user_annotation":
            continue
        one = real[event["cat"], "Process Group Ranks" in event["args"]][0]
        assert event.keys() <= one.keys()
        assert event["args"].keys() <= one["args"].keys()


def test_kernels_of_a_rank_do_not_overlap_and_a_fault_takes_time():
    healthy = traced_job(2, 4, seed=1)
    for trace in healthy:
        spans = sorted((event["ts"], event["ts"] + event["dur"]) for event in kernels_of(trace))
        assert all(before[1] <= after[0] + 0.01 for before, after in pairwise(spans))
    for fault in (
        JobFault(slow_gpu=(1, 1.5)),
        JobFault(slow_host=(1, 600.0)),
        JobFault(late_batches=(1, 3000.0)),
        JobFault(slow_network=(1, 3.0)),
    ):
        assert seconds_of_job(traced_job(2, 4, fault=fault, seed=1)) > 1.1 * seconds_of_job(healthy)
