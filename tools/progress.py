"""pip at work, told so that a person can follow: what it fetches and how much, then how far it has unpacked.

pip itself lists hundreds of lines, and says nothing in the long last step. All of its output goes into a file.
"""

from __future__ import annotations

import os
import queue
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

EVERY_SECONDS = 15  # a line, where lines cannot be written over
UNITS = {"B": 1e-6, "kB": 1e-3, "MB": 1.0, "GB": 1e3}
DOWNLOADING = re.compile(r"\s*Downloading (?:\S*/)?([\w.]+)-\S+ \(([\d.]+) (B|kB|MB|GB)\)")
INSTALLING = "Installing collected packages: "


class Progress:
    """What pip has said so far. `packages` is the folder into which it unpacks."""

    def __init__(self, packages: Path):
        self._packages = packages
        self._there_before = self._count()
        self._fetched, self._megabytes, self._latest = 0, 0.0, ""
        self._unpacking: list[str] = []

    def hear(self, line: str) -> None:
        """Take a line of pip's output."""
        if found := DOWNLOADING.match(line):
            self._fetched += 1
            self._megabytes += float(found[2]) * UNITS[found[3]]
            self._latest = f"{found[1].replace('_', '-')} ({found[2]} {found[3]})"
        elif line.startswith(INSTALLING):
            self._unpacking = line[len(INSTALLING) :].strip().split(", ")

    def __str__(self) -> str:
        if total := len(self._unpacking):
            done = min(max(self._count() - self._there_before, 0), total - 1)
            return f"unpacking {done + 1} of {total}: {self._unpacking[done]}"
        if self._fetched:
            return f"fetching {self._latest}, number {self._fetched}, {self._megabytes:,.0f} MB with those before"
        return "looking up what is needed"

    def _count(self) -> int:
        return sum(1 for _ in self._packages.glob("*.dist-info"))


def run_pip(command: list, packages: Path, log: Path, cwd: Path) -> bool:
    """Run a command of pip's and tell how far it is. Returns whether it worked; if not, its reason has been printed."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    options = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    progress, started, said = Progress(packages), time.monotonic(), []
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
    with subprocess.Popen([*command, *options], cwd=cwd, env=environment, text=True, errors="replace", **pipes) as pip:
        for line in _lines(pip.stdout, lambda: _show(progress, started)):
            said.append(line)
            progress.hear(line)
    _clear()
    with log.open("a", encoding="utf-8") as file:
        file.writelines(said)
    if pip.returncode:
        reasons = [line for line in said if line.startswith("ERROR:")] or said[-3:]
        print("".join(reasons[:6]).rstrip() + f"\n(pip's whole output is in {log})", flush=True)
    return not pip.returncode


def _lines(output, meanwhile):
    """Each line as it comes. Calls `meanwhile` from time to time, also while none comes."""
    heard: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        for line in output:
            heard.put(line)
        heard.put(None)

    threading.Thread(target=read, daemon=True).start()
    wait = 1 if sys.stdout.isatty() else EVERY_SECONDS
    due = time.monotonic() + wait
    while True:
        try:
            line = heard.get(timeout=max(due - time.monotonic(), 0))
            if line is None:
                return
            yield line
        except queue.Empty:
            meanwhile()
            due = time.monotonic() + wait


def _show(progress: Progress, started: float) -> None:
    text = f"setup:   {time.monotonic() - started:4.0f} s  {progress}"
    if sys.stdout.isatty():
        width = os.get_terminal_size().columns - 1
        print(f"\r\033[K{text[:width]}", end="", flush=True)
    else:
        print(text, flush=True)


def _clear() -> None:
    if sys.stdout.isatty():
        print("\r\033[K", end="", flush=True)
