"""The course's one command: `release` makes the labs, `grade` grades what comes back, `plan` plans a training step."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from utils.common.errors import Problem

if TYPE_CHECKING:
    from utils.grading.folder import Outcome

app = typer.Typer(
    name="course",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _say_version(asked: bool) -> None:
    if asked:
        from utils.course.release import course_version

        print(course_version())
        raise typer.Exit


@app.callback()
def course(
    version: Annotated[
        bool, typer.Option("--version", help="Say the version of the course.", is_eager=True, callback=_say_version)
    ] = False,
) -> None:
    """Make the labs that students get, grade what they hand in, and see what works here."""
    from utils.common.files import ROOT

    here = Path.cwd()
    if (here / "utils" / "course" / "cli.py").is_file() and here.resolve() != ROOT:
        raise Problem(
            f"this command belongs to the course in {ROOT}, and you are in {here}: "
            "use `.venv/bin/python -m utils.course` here"
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
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where grades.csv and all the rest go.")],
    submissions: Annotated[
        Path | None,
        typer.Argument(
            help="A folder with a notebook or a folder for each student, or the zip that Moodle, Canvas exports."
        ),
    ] = None,
    hub: Annotated[
        Path | None,
        typer.Option(metavar="CLASS", help="In place of SUBMISSIONS: the class of `course hub`, with its times."),
    ] = None,
    give_back: Annotated[
        bool, typer.Option("--give-back", help="With --hub: students see their pages there, but those in doubt.")
    ] = False,
    students: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Everybody: names, one a line, or a platform's CSV. Who handed in nothing is 'missing'.",
        ),
    ] = None,
    gradebook: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The CSV that your platform exports: exports/ then carries its ids."),
    ] = None,
    deadline: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Late after this, such as '2026-11-30 23:59' or '2026-11-30 23:59 Europe/Berlin'; "
            "by what the platform's files say if left out.",
        ),
    ] = None,
    grace: Annotated[float, typer.Option(metavar="MINUTES", help="So much later is not late.")] = 0,
    late_penalty: Annotated[
        str,
        typer.Option(
            metavar="COST",
            help="'10%/day' of all points for each day begun, '1/day', '20%', '10%/day up to 50%', or 'none'.",
        ),
    ] = "none",
    again: Annotated[
        list[str] | None,
        typer.Option(metavar="WHO", help="Judge this student again, or 'all'. May be given more than once."),
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
    page for each student, class.html one for you. A run that was stopped goes on where it was. What you write into
    overrides.csv and words.csv in DIR counts from the next run on, which judges nothing again.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from utils.grading.folder import grade_folder
    from utils.grading.marking.late import deadline as rule_of
    from utils.grading.run.kernel import Limits

    if hub is not None:
        from utils.hub import class_folder, hand_ins

        if submissions is not None:
            raise Problem("give a folder, a zip or --hub with a class: one of them")
        of = class_folder.read_class(hub)
        submissions = of.handed_in
        if deadline is None and lab in of.deadlines:
            deadline = of.deadlines[lab].isoformat()
        if students is None:
            students = of.hub / f"{lab}.csv"
            hand_ins.write_roster(of, lab, students)
    elif give_back:
        raise Problem("--give-back is for a class of `course hub`: give its folder with --hub")
    if submissions is None:
        raise Problem("give what was handed in: a folder or a zip, or --hub with the folder of a class")
    rule = rule_of(deadline, grace=grace, penalty=late_penalty)
    limits = Limits(cell=cell_seconds, call=call_seconds, submission=submission_seconds, sandboxed=sandbox)
    console = Console(stderr=True)
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"Grading {lab}", visible=False)
        outcome = grade_folder(
            lab,
            submissions,
            out,
            students=students,
            gradebook=gradebook,
            deadline=rule,
            again=again or (),
            jobs=jobs,
            dask=dask,
            limits=limits,
            progress=lambda done, total: bar.update(task, completed=done, total=total, visible=True),
        )
    _print(outcome)
    if give_back and hub is not None:
        from utils.hub import class_folder, results

        sure = [
            one.student for one in outcome.grades if one.known and one.status != "missing" and not outcome.is_held(one)
        ]
        count = results.give_back(class_folder.read_class(hub), lab, out / "feedback", sure)
        print(f"Given back: {count} student{'s see their' if count != 1 else ' sees the'} page at /services/class/")


def _print(outcome: Outcome) -> None:
    from utils.grading.tell.text import line

    for one in outcome.grades:
        note = f"  ({line(one.note)})" if one.note else ""
        late = f"  late: -{one.penalty:g}" if one.penalty else ""
        look = "  look at it by hand" if outcome.is_held(one) else ""
        print(f"{line(one.student):<24} {one.mark:>3g} / {outcome.most:g}  {one.status}{note}{late}{look}")
    if outcome.earlier:
        print(f"graded by an earlier version of the course: {outcome.earlier} kept; --again all judges all of them")
    count = len(outcome.grades)
    print(f"{count} graded: {outcome.table}. {outcome.warning}".rstrip())
    print("\n".join(_next_steps(outcome)))


def _next_steps(outcome: Outcome) -> list[str]:
    """What an instructor does now, in three lines."""
    out = outcome.table.parent
    look = f"Look: {outcome.look_at} by hand, in {out / 'exports' / 'look_at.csv'}; the class, in {outcome.report}."
    answers = "1 answer in words has" if outcome.unmarked == 1 else f"{outcome.unmarked} answers in words have"
    words = f"{answers} no points: {out / 'words.html'}; " if outcome.unmarked else ""
    mark = f"Mark: {words}change a mark in {out / 'overrides.csv'}; then run the same command again."
    if outcome.again:
        return [look, mark, f"{len(outcome.again)} could not be graded: run the same command again for them."]
    return [look, mark, f"Import: {out / 'exports' / 'how_to_import.txt'} says how."]


@app.command()
def hub(
    folder: Annotated[Path, typer.Argument(metavar="CLASS", help="The folder of a class, made the first time.")],
    students: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The first time: who may log in, one login a line.")
    ] = None,
    make_only: Annotated[bool, typer.Option("--make-only", help="Make or renew the folder; start nothing.")] = False,
) -> None:
    """Start a JupyterHub for a class on this machine. Students log in, work apart from each other, and hand in.

    The folder has everything: settings, the students' files, what was handed in. Stop it with Ctrl+C.
    """
    from utils.course import release as releasing
    from utils.hub import start

    print(start.make_ready(folder, students, releasing.bundle))
    print(f"Grade what they hand in: course grade LAB --hub {folder} --out DIR (docs/classroom.md)", flush=True)
    if not make_only:
        start.start_hub(folder)


@app.command()
def compare(
    lab: Annotated[str, typer.Argument(help="The lab, such as lab01.")],
    graded: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that `course grade --out` has written.")],
) -> None:
    """Show answers of a class that are alike, as a reason to look and never as a verdict: compare.html in DIR."""
    from utils.exercises.facts import load_lab
    from utils.grading import compare as comparing
    from utils.grading.tell.comparison import write_comparison

    found = comparing.compare_answers(comparing.read_results(graded), lab)
    table, page = write_comparison(found, load_lab(lab), graded)
    print(f"{found.students} compared, {len(found.pairs)} pairs to look at: {page}, {table}")


@app.command()
def certificate(
    graded: Annotated[
        list[Path],
        typer.Argument(help="Folders that `course grade` has written, named after their labs, or a folder of them."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where a page for each student goes.")],
    by: Annotated[str, typer.Option(metavar="NAME", help="Who signs.")],
    on: Annotated[str | None, typer.Option(metavar="DATE", help="The date on it, as text; today if left out.")] = None,
    least: Annotated[float, typer.Option(help="The share of a lab's points that is enough, in each lab.")] = 0.5,
) -> None:
    """Write a certificate to print for each student who has done all of these labs, and say why others get none."""
    from datetime import date

    from utils.grading.tell.certificate import certificates
    from utils.grading.tell.text import line

    written = certificates(graded, out, by=by, on=on or f"{date.today():%d %B %Y}", least=least)
    for student, why in written.without.items():
        print(f"{line(student):<24} none: {line(why, 400)}")
    print(f"{len(written.files)} written to {out}, {len(written.without)} without. Print them from a browser.")


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


@app.command()
def pack(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the two zips go.")],
) -> None:
    """Make the zip for students and the one for instructors, with the version in their names."""
    from utils.course import release as releasing

    for path, count in releasing.pack(folder):
        print(f"made {path}: {count} files, {path.stat().st_size / 1e6:.1f} MB")


@app.command()
def doctor() -> None:
    """Try what the course needs on this machine, and say what to do about what does not work."""
    from utils.course import doctor as doctors

    found = list(doctors.findings())
    print(f"{doctors.report(found)}\n{doctors.verdict(found)}")
    raise typer.Exit(any(finding.works is False for finding in found))


@app.command()
def measure(
    out: Annotated[Path, typer.Argument(metavar="OUT.json", help="The file to write, for yourself or to send in.")],
    simulated: Annotated[
        str | None, typer.Option(metavar="GPU", help="Measure two simulated GPUs of this kind, such as T4, instead.")
    ] = None,
) -> None:
    """Measure the GPUs of this machine and the links between them: a minute or two for each."""
    from utils.course import measure as measuring
    from utils.course import measured

    devices = measuring.simulated_devices(simulated) if simulated else measuring.real_devices()
    measured.write(out, measuring.measure_all(devices, told=lambda what: print(f"measuring {what}", flush=True)))
    print(measured.table(measured.read(out)))
    print(f"made {out}. It says what the GPUs are and how fast, and nothing about you.")


@app.command()
def measurements(files: Annotated[list[Path], typer.Argument(help="Files that `course measure` has made.")]) -> None:
    """Check files of measurements, and show them beside what a simulated GPU of that kind takes."""
    from utils.course import measured

    for path in files:
        print(measured.table(measured.read(path)))


@app.command()
def badges() -> None:
    """For authors: buttons for Colab, Kaggle and Binder, if pyproject.toml names a repository; else take them out."""
    from utils.course import badges as buttons

    changed = buttons.put()
    for path in changed:
        print(f"changed {path.relative_to(buttons.ROOT)}")
    where = buttons.repository() or "no repository ([tool.course] in pyproject.toml): no buttons"
    print(f"{where}: {len(changed)} page{'s' if len(changed) != 1 else ''} changed")


@app.command()
def plan(
    layers: Annotated[int, typer.Option(help="Of a Llama-like model.")] = 32,
    hidden_size: Annotated[int, typer.Option(help="Numbers for a token between layers.")] = 4096,
    heads: Annotated[int, typer.Option(help="Of attention.")] = 32,
    kv_heads: Annotated[
        int | None, typer.Option(help="That share keys and values; as many as heads if left out.")
    ] = None,
    intermediate_size: Annotated[int, typer.Option(help="Numbers for a token inside of an MLP.")] = 14336,
    vocab_size: Annotated[int, typer.Option(help="Tokens that there are.")] = 128256,
    length: Annotated[int, typer.Option(help="Tokens in a row of the batch.")] = 8192,
    batch: Annotated[int, typer.Option(help="Rows in a training step, on all GPUs together.")] = 64,
    gpus: Annotated[int, typer.Option(help="In all.")] = 8,
    per_node: Annotated[int, typer.Option(help="GPUs in a node.")] = 8,
    gpu: Annotated[str, typer.Option(help="A profile's name, such as A100 or H100.")] = "H100",
    link: Annotated[str, typer.Option(help="Between the GPUs of a node, such as pcie4 or nvlink4.")] = "nvlink4",
    network: Annotated[str, typer.Option(help="Between nodes, for each GPU: 25G, 100G, 200G or 400G.")] = "400G",
    best: Annotated[int, typer.Option(min=1, help="How many of the fastest to print.")] = 10,
    simulate: Annotated[
        int, typer.Option(min=0, help="How many of the fastest to run shapes-only, beside the estimate.")
    ] = 0,
    out: Annotated[Path | None, typer.Option(metavar="FILE.csv", help="Write all layouts, with reasons.")] = None,
    picture: Annotated[Path | None, typer.Option(metavar="FILE.png", help="Draw the memory of the fastest.")] = None,
) -> None:
    """Estimate every layout of a training step on a cluster: data x shard x tensor x pipeline, and what fits."""
    from utils import planner

    model = planner.llama(layers, hidden_size, heads, kv_heads, intermediate_size, vocab_size, length)
    found = planner.plan(model, planner.Cluster(gpu, gpus, per_node, link, network), batch)
    print(found)
    if found.fits:
        print(found.table(best).round(2).to_string(index=False))
    print(found.reasons().head(5).to_string())
    if simulate:
        print(found.simulated(simulate).round(3).to_string(index=False))
    if out is not None:
        found.table(everything=True).to_csv(out, index=False)
    if picture is not None:
        found.draw(best).save(picture)


def main() -> None:
    """Run the command. What the user can mend is told in one line, without a traceback."""
    try:
        app()
    except Problem as problem:
        from utils.grading.tell.text import line

        print(f"course: {line(problem, 2000)}", file=sys.stderr)  # it may quote a stranger's file
        sys.exit(2)
