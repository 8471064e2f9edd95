"""Devices for what a judge measures itself, where no hook of a submission runs."""

from __future__ import annotations

from utils.facts.student import Student


def need_devices(student: Student, count: int = 2) -> None:
    """See to it that this process has the first `count` devices of the student's.

    In the learner's own kernel they are there. A grader makes simulated ones, as `devices(count)` does in the notebook:
    tensors that lie on others are gone then.
    """
    if not student.here and student.devices[0].startswith("simgpu"):
        from utils import simgpu

        simgpu.enable(count)
