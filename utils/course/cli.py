"""The course's one command: `course release` makes the labs, `course grade` grades what comes back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from utils.problem import Problem

app = typer.Typer(
    name="course",
    help="Make the labs that students get, and grade what they hand in.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def release(
    labs: Annotated[list[str] | None, typer.Argument(help="Labs to make, such as lab01. All of them if none.")] = None,
    bundle: Annotated[
        Path | None, typer.Option(metavar="OUT.zip", help="Also write the zip that students get: no answers in it.")
    ] = None,
) -> None:
    """Make the student's notebooks in labs/ from their sources in solutions/."""
    from utils.course import release as releasing

    for path in releasing.release(labs or []):
        print(f"made {path.relative_to(releasing.ROOT)}")
    if bundle is not None:
        count = releasing.bundle(bundle)
        print(f"made {bundle}: {count} files, {bundle.stat().st_size / 1e6:.1f} MB, no solutions, no hidden tests")


@app.command()
def grade(
    lab: Annotated[str, typer.Argument(help="The lab that was handed in, such as lab01.")],
    submissions: Annotated[
        Path,
        typer.Argument(
            help="A folder with a notebook or a folder for each student, or the zip that Moodle, Canvas exports."
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where grades.csv and all the rest go.")],
    students: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Names, one a line or first in a CSV: who is not there is 'missing'."),
    ] = None,
    gradebook: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The CSV that your platform exports: exports/ then carries its ids."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many submissions at once.")] = 1,
    dask: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Grade on the workers of this Dask scheduler instead.")
    ] = None,
    sandbox: Annotated[
        bool, typer.Option(help="Without one, a submission can read and write whatever you can.")
    ] = True,
    cell_seconds: Annotated[float, typer.Option(help="How long one cell may run.")] = 60,
    call_seconds: Annotated[float, typer.Option(help="How long one call of a student's function may run.")] = 20,
    submission_seconds: Annotated[float, typer.Option(help="How long one submission may take in all.")] = 900,
) -> None:
    """Grade one lab: each notebook runs in a sandbox of its own and is judged from outside.

    grades.csv has a row for each student: points for each exercise, total, max, and a status. feedback/ has a
    page for each student, class.html one for you. A run that was stopped goes on where it was.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from utils.course.release import lab_sources
    from utils.facts import load_lab
    from utils.files import write_whole
    from utils.grading import classroom
    from utils.grading.roster import read_gradebook, read_roster
    from utils.grading.run import sandbox as sandboxing
    from utils.grading.run.kernel import Limits
    from utils.grading.run.submissions import file_stem, handed_in
    from utils.grading.tell.exports import write_exports, write_grades
    from utils.grading.tell.feedback import student_page, student_text
    from utils.grading.tell.report import class_page
    from utils.grading.tell.text import line

    notebook_name = lab_sources([lab])[0].name
    try:
        judged_by = load_lab(lab, hidden=True)
    except FileNotFoundError as missing:
        raise Problem(f"{missing}. Grading needs the instructor's copy of the course.") from None
    if sandbox and dask is None:
        try:
            sandboxing.require()
        except sandboxing.NoSandbox as reason:
            raise Problem(f"no sandbox: {reason}. Or trust every submission, with --no-sandbox.") from None
    roster = read_roster(students) if students else []
    book = read_gradebook(gradebook) if gradebook else None
    try:
        (out / "feedback").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Problem(f"cannot write to {out}: {error.strerror}") from None
    limits = Limits(cell=cell_seconds, call=call_seconds, submission=submission_seconds, sandboxed=sandbox)
    warning = "" if sandbox else "Graded without a sandbox: each submission could read and write what the grader can."
    console = Console(stderr=True)
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    with (
        handed_in(submissions, notebook_name, roster) as found,
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
    ):
        task = progress.add_task(f"Grading {lab}", total=len(found))

        def finished(result, new: bool) -> None:
            stem = out / "feedback" / file_stem(result.student)
            page, text = stem.with_name(f"{stem.name}.html"), stem.with_name(f"{stem.name}.txt")
            if new or not (page.exists() and text.exists()):
                write_whole(page, student_page(result, judged_by, warning))
                write_whole(text, student_text(result, judged_by, warning))
            progress.advance(task)

        grades = classroom.grade_class(found, lab, out, limits, jobs=jobs, dask=dask, finished=finished)
    write_grades(grades, judged_by, out / "grades.csv")
    write_whole(out / "class.html", class_page(grades, judged_by, warning))
    how = write_exports(grades, judged_by, out / "exports", book)
    write_whole(out / "exports" / "how_to_import.txt", "\n".join(how) + "\n")
    for result in grades:
        note = f"  ({line(result.note)})" if result.note else ""
        look = "  look at it by hand" if result.flags else ""
        print(f"{line(result.student):<24} {result.total:>3} / {judged_by.points}  {result.status}{note}{look}")
    again = sum(result.status == "not-graded" for result in grades)
    if again:
        print(f"{again} could not be graded: run the same command again for them.")
    print(f"{len(grades)} graded: {out / 'grades.csv'}. Look at {out / 'class.html'}. {warning}".rstrip())


@app.command()
def refresh(
    notebooks: Annotated[list[Path], typer.Argument(help="Lessons to run, such as notebooks/01_split_a_model.ipynb.")],
) -> None:
    """For authors: run lessons and keep their outputs in them, so that they read well on a code host."""
    from utils.course import lessons

    for path in notebooks:
        if not path.is_file():
            raise Problem(f"there is no notebook {path}")
        lessons.refresh(path)
        print(f"ran {path}")


def main() -> None:
    """Run the command. What the user can mend is told in one line, without a traceback."""
    try:
        app()
    except Problem as problem:
        print(f"course: {problem}", file=sys.stderr)
        sys.exit(2)
