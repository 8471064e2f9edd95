"""Types: no room has more errors than tools/type_errors.toml states. `python tools/check_types.py` asks pyright.

    python tools/check_types.py [--show WORD] [--write]

A file belongs to the longest path in that list that it begins with. `--show` prints the errors of files whose path has
this word in it. `--write` states the new counts where errors have gone; a count that should rise is raised by hand.
pyright comes as basedpyright, whose wheel brings Node along: nothing is loaded from the network.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STATED = ROOT / "tools" / "type_errors.toml"
TOOL = "basedpyright"
HEAD = """\
# How many errors pyright finds in each room: `make types` fails where there are more, and says where there are fewer.
# What has 0 stays so. `python tools/check_types.py --write` takes lower counts over.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--show", metavar="WORD", help="print the errors of files with this in their path")
    parser.add_argument("--write", action="store_true", help="take lower counts over")
    asked = parser.parse_args()
    stated = tomllib.loads(STATED.read_text(encoding="utf-8"))
    errors = found_errors()
    counts = count_by_room(errors, stated)
    if asked.show is not None:
        print(*(line(error) for error in errors if asked.show in path_of(error)), sep="\n")
    if asked.write:
        stated = {room: min(count, counts[room]) for room, count in stated.items()}
        STATED.write_text(HEAD + "".join(f'"{room}" = {count}\n' for room, count in stated.items()), encoding="utf-8")
    more, fewer = compare(counts, stated)
    for room in more:
        print(*(line(error) for error in errors if room_of(path_of(error), stated) == room), sep="\n")
    print(*more.values(), *fewer.values(), f"types: {sum(counts.values())} errors, {len(stated)} rooms", sep="\n")
    if more and (other := other_versions()):
        print(f"types: the counts are for the versions in constraints.txt, and here is {other}")
    sys.exit(bool(more))


def found_errors() -> list[dict]:
    """What pyright reports as errors, as its JSON has them. Ends the program with one line where it cannot be run."""
    command = [sys.executable, "-m", TOOL, "--outputjson", "--pythonpath", sys.executable]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    try:
        report = json.loads(run.stdout)
        errors = [found for found in report["generalDiagnostics"] if found["severity"] == "error"]
        if not report["summary"]["filesAnalyzed"] or len(errors) != report["summary"]["errorCount"]:
            raise ValueError
    except (ValueError, KeyError):  # it is not there, or Node does not start, or its settings are wrong
        said = (run.stderr.strip() or run.stdout.strip() or f"status {run.returncode}").splitlines()[-1]
        sys.exit(f"types: NOT CHECKED, {TOOL} does not run ({said}): make setup-test")
    return errors


def path_of(error: dict) -> str:
    return Path(error["file"]).relative_to(ROOT).as_posix()


def line(error: dict) -> str:
    """An error as `path:line: message`, clickable in an editor's terminal."""
    words = error["message"].splitlines()[0]
    return f"{path_of(error)}:{error['range']['start']['line'] + 1}: {words} ({error.get('rule', 'syntax')})"


def room_of(path: str, stated: dict[str, int]) -> str:
    """The longest of the stated paths that this one is or lies in; its folder where there is none."""
    within = [room for room in stated if path == room or path.startswith(f"{room}/")]
    return max(within, key=len, default=path.rpartition("/")[0])


def count_by_room(errors: list[dict], stated: dict[str, int]) -> Counter[str]:
    return Counter(room_of(path_of(error), stated) for error in errors)


def compare(counts: Counter[str], stated: dict[str, int]) -> tuple[dict[str, str], dict[str, str]]:
    """What to say of rooms with more errors than stated, and of those with fewer."""
    more, fewer = {}, {}
    for room in sorted({*counts, *stated}):
        found, allowed = counts[room], stated.get(room, 0)
        if found > allowed:
            more[room] = f"types: {room} has {found} errors, {allowed} are stated in {STATED.relative_to(ROOT)}"
        elif found < allowed:
            fewer[room] = f"types: {room} has {found} errors now, not {allowed}: tools/check_types.py --write"
    return more, fewer


def other_versions() -> str:
    """Packages that errors depend on and that are here in another version than the tested one."""
    tested = dict(re.findall(r"^([\w-]+)==(\S+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE))
    here = {name: metadata.version(name).partition("+")[0] for name in (TOOL, "torch", "numpy", "matplotlib")}
    return ", ".join(f"{name} {version}" for name, version in here.items() if version != tested[name])


if __name__ == "__main__":
    main()
