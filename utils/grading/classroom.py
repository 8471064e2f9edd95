"""A class, graded: several submissions at once, each result kept as it comes, so that a killed run goes on later.

Each worker is a process of its own that grades one submission after another; each submission runs in a kernel of its
own (kernel.py). A result is a file in `OUT/results/`, with a fingerprint of all that it depends on (fingerprint.py).
What has a result with the right fingerprint is not graded again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from multiprocessing import forkserver, get_context, parent_process
from multiprocessing.context import BaseContext
from multiprocessing.util import Finalize, get_temp_dir
from pathlib import Path

import psutil

from utils.common.errors import Problem
from utils.common.files import write_whole
from utils.exercises.facts import Lab, load_lab
from utils.grading.fingerprint import course_digest, fingerprint
from utils.grading.grade import Grade, grade_submission
from utils.grading.handed_in.reader import LARGEST_FILE
from utils.grading.run.kernel import Limits, fork_server_for, start_fork_server
from utils.grading.run.provisioner import borrow
from utils.grading.run.submissions import FOLDERS, Submission, file_stem
from utils.processes.forking import ForkServerEnded, Lent

TRIES = 2  # of a submission whose grading process died
ONE_AT_A_TIME = threading.Lock()  # the simulated GPUs are one machine a process


def start_processes(submissions: Sequence[Submission], out: Path, limits: Limits) -> None:
    """Start, beside other work, what takes seconds to load: the processes that kernels and workers are forked from.

    Unless each submission has a result in `out`: then there may be nothing to judge.
    """
    if not all(_result_of(one, out / "results").exists() for one in submissions):
        start_fork_server(limits)
        _new_processes()


def grade_class(
    submissions: Sequence[Submission],
    lab_name: str,
    out: Path,
    limits: Limits,
    *,
    jobs: int = 1,
    dask: str | None = None,
    again: Collection[str] = (),
    finished: Callable[[Grade, bool, bool], None] = lambda grade, new, earlier: None,
) -> list[Grade]:
    """Grade what has no result in `out` yet; returns all grades in the order of the submissions.

    `jobs` is how many at once on this machine, or `dask` the address of a scheduler whose workers grade. `again` are
    students who are graded whatever result they have. `finished` is called with each grade as it comes, whether it is
    new, and whether another version of the course gave it. Raises Problem for a scheduler that cannot be had.
    """
    folder = out / "results"
    folder.mkdir(parents=True, exist_ok=True)
    _sweep()
    marks = {one.student: fingerprint(one, lab_name, limits) for one in submissions}
    grades: dict[str, Grade] = {}
    todo = []
    for submission in submissions:
        kept = _kept(folder, submission, marks[submission.student])
        if kept is None or submission.student in again:
            todo.append(submission)
        else:
            grades[submission.student], same_course = kept
            finished(kept[0], False, not same_course)
    groups = _by_group(todo)
    firsts = [members[0] for members in groups.values()]
    source = _on_dask(firsts, lab_name, limits, dask) if dask else _here(firsts, lab_name, limits, jobs)
    for submission, judged in source:
        for member in groups[_group_of(submission)]:
            grade = grades[member.student] = _as_of(member, submission, judged)
            if not grade.about.again:
                result = {"fingerprint": marks[member.student], "course": course_digest(), "grade": grade.to_dict()}
                write_whole(_result_of(member, folder), json.dumps(result, indent=1) + "\n")
            finished(grade, True, False)
    return [grades[submission.student] for submission in submissions]


def _by_group(submissions: Sequence[Submission]) -> dict[tuple, list[Submission]]:
    """Those who have handed in together: they are graded once."""
    groups: dict[tuple, list[Submission]] = {}
    for one in submissions:
        groups.setdefault(_group_of(one), []).append(one)
    return groups


def _group_of(submission: Submission) -> tuple:
    return (submission.group, submission.files) if submission.group else (submission.student,)


def _as_of(member: Submission, first: Submission, grade: Grade) -> Grade:
    """The grade of one member of a group, where the first one's submission was graded."""
    flags = [*member.doubts, *grade.flags[len(first.doubts) :]] if first is not member else grade.flags
    return dataclasses.replace(grade, student=member.student, id=member.id, flags=flags)


def grade_one(submission: Submission, contents: list[bytes] | None, lab_name: str, limits: Limits) -> Grade:
    """Grade one submission, in a worker. `contents` are its files, if not on this machine."""
    with ONE_AT_A_TIME, contextlib.ExitStack() as stack:
        if contents is not None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="submission-")))
            submission = _written(submission, contents, folder)
        return grade_submission(submission, _lab(lab_name), limits)


def _written(submission: Submission, contents: list[bytes], folder: Path) -> Submission:
    """The same submission, with its files in `folder`: called as they were, with the folder that each was in."""
    paths = []
    for number, (path, content) in enumerate(zip(submission.files, contents, strict=True)):
        paths.append(folder / str(number) / path.parent.name / path.name)
        paths[-1].parent.mkdir(parents=True)
        paths[-1].write_bytes(content)
    return dataclasses.replace(submission, path=paths[0], more=tuple(paths[1:]))


def _here(todo: Sequence[Submission], lab_name: str, limits: Limits, jobs: int) -> Iterator[tuple[Submission, Grade]]:
    """Grade on this machine. A worker that dies costs its own submission, after a second try."""
    tries = dict.fromkeys((one.student for one in todo), 0)
    waiting = list(todo)
    while waiting:
        # After a death it is not known whose it was: then one at a time, each in a process of its own.
        alone = any(tries[one.student] for one in waiting)
        batch, waiting = (waiting[:1], waiting[1:]) if alone else (waiting, [])
        how = {"mp_context": _new_processes(), "initializer": _begin_work, "initargs": (_lent(limits), limits)}
        with ProcessPoolExecutor(1 if alone else min(jobs, len(batch)), **how) as pool:
            futures = {pool.submit(grade_one, one, None, lab_name, limits): one for one in batch}
            for future in as_completed(futures):
                submission = futures[future]
                try:
                    yield submission, future.result()
                except BrokenProcessPool:
                    tries[submission.student] += 1
                    if tries[submission.student] < TRIES:
                        waiting.append(submission)
                    else:
                        yield submission, _not_graded(submission, lab_name, "the grader's own process ended")
                except Exception as error:  # of the grader: it costs this submission, not the class
                    note = f"the grader failed: {type(error).__name__}: {error}"
                    yield submission, _not_graded(submission, lab_name, note)


@cache
def _new_processes() -> BaseContext:
    """How workers begin: on Linux forked from a process that has loaded what they need, and shares it with them."""
    if not sys.platform.startswith("linux"):
        return get_context("spawn")
    # That process is reached by a socket in a folder, which a killed grader leaves: in one that is swept, then.
    folder = tempfile.mkdtemp(prefix=f"{FOLDERS}{os.getpid()}-")
    Finalize(None, shutil.rmtree, (folder, True), exitpriority=-200)  # after multiprocessing's own, at -100
    before, tempfile.tempdir = tempfile.tempdir, folder
    try:
        get_temp_dir()
    finally:
        tempfile.tempdir = before
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__, "torch"])
    forkserver.ensure_running()  # it loads them beside what this process does
    return context


def _on_dask(
    todo: Sequence[Submission], lab_name: str, limits: Limits, address: str
) -> Iterator[tuple[Submission, Grade]]:
    """Grade on a Dask cluster: one submission a task. Its workers need the instructor's copy of the course."""
    try:
        from distributed import Client
        from distributed import as_completed as completed
    except ImportError:
        raise Problem("--dask needs Dask: pip install 'distributed>=2024.1' (extra `cluster`).") from None
    try:
        client = Client(address, timeout=20)
    except (OSError, ValueError, TimeoutError) as error:
        raise Problem(f"no Dask scheduler answers at {address}: {error}") from None
    with client:
        futures = {}
        for one in todo:
            contents = [_sent(path) for path in one.files] or None
            future = client.submit(grade_one, one, contents, lab_name, limits, pure=False, retries=TRIES - 1)
            futures[future] = one
        for future in completed(list(futures)):
            try:
                grade = future.result()
            except Exception as error:  # of a worker: its loss costs this submission, not the class
                grade = _not_graded(futures[future], lab_name, f"its worker failed: {type(error).__name__}")
            yield futures[future], grade


def _sent(path: Path) -> bytes:
    """A file's content for another machine. Of one that is too large to be read as much as shows that."""
    with path.open("rb") as file:
        return file.read(LARGEST_FILE + 1)


def _not_graded(submission: Submission, lab_name: str, note: str) -> Grade:
    return Grade(submission.student, "not-graded", dict.fromkeys(_lab(lab_name).exercises, 0), note)


@cache
def _lab(name: str) -> Lab:
    return load_lab(name, hidden=True)


def _result_of(submission: Submission, folder: Path) -> Path:
    return folder / f"{file_stem(submission.student)}.json"


def _kept(folder: Path, submission: Submission, fingerprint: str) -> tuple[Grade, bool] | None:
    """The result of an earlier run, if it is of the same submission, lab and grader; and whether of the same course."""
    try:
        result = json.loads(_result_of(submission, folder).read_text(encoding="utf-8"))
        if result["fingerprint"] != fingerprint:
            return None
        grade = Grade.from_dict(result["grade"])
        return (grade, result.get("course") == course_digest()) if grade.student == submission.student else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _lent(limits: Limits) -> Lent | None:
    """The fork server that all workers fork from; None where each has to see for itself."""
    try:
        server = fork_server_for(limits)
    except ForkServerEnded:
        return None
    return server and server.lent()


def _begin_work(server: Lent | None, limits: Limits) -> None:
    """In a worker. Where its grader is killed it goes too, at once, and its kernels with it."""
    if server is not None:
        borrow(server, sandboxed=limits.sandboxed)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the grader decides what an interrupt means

    def end_with(grader) -> None:
        grader.join()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=end_with, args=[parent_process()], daemon=True).start()


def _sweep() -> None:
    """Remove what killed graders left in the folder for temporary files."""

    def is_gone(number: int) -> bool:
        try:
            return psutil.Process(number).status() == psutil.STATUS_ZOMBIE  # not yet asked how it ended
        except psutil.Error:
            return True

    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDERS}*"):
        number = folder.name.removeprefix(FOLDERS).split("-")[0]
        if number.isdigit() and is_gone(int(number)):
            shutil.rmtree(folder, ignore_errors=True)
