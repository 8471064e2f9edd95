"""Devices for what a judge measures itself, where no hook of a submission runs."""

from __future__ import annotations

from utils.exercises.facts.student import Student


def need_devices(student: Student, count: int = 2) -> None:
    """See to it that this process has the first `count` devices of the student's.

    In the learner's own kernel they are there. A grader makes new simulated ones, as `devices(count)` does in the
    notebook, so that what is measured does not depend on what was measured before. Tensors on older ones are gone.
    """
    if not getattr(student, "here", False) and student.devices[0].startswith("simgpu"):
        import simgpu

        simgpu.enable(count, memory=2**40)  # the same arguments twice would change nothing
        simgpu.enable(count)
