"""Make a class ready and start its hub. The messages name what is missing and how to get it."""

from __future__ import annotations

import filecmp
import importlib.util
import os
import shutil
import socket
import sys
import tempfile
import zipfile
from pathlib import Path

import psutil

from utils.common.errors import Problem
from utils.common.files import python_path
from utils.hub import class_folder
from utils.hub.configure import PROXY


def make_ready(folder: Path, students: Path | None, bundle) -> str:
    """A class with the course of now in it; made where there is none. Returns what to tell the instructor."""
    if students is not None or not (folder / class_folder.SETTINGS).exists():
        if students is None:
            raise Problem(f"{folder} is no class yet: make one by `course hub {folder} --students FILE`")
        class_folder.make_class(folder, students)
    of = class_folder.read_class(folder)
    renew_course(of, bundle)
    config = folder / class_folder.CONFIG
    by_another = config.exists() and "authenticator_class" in config.read_text(encoding="utf-8")
    how = f"as {config} says" if by_another else f"with the password in {folder / class_folder.SETTINGS}"
    return (
        f"{len(of.students)} students. They open http://{of.address}:{of.port} and log in by a name in "
        f"{folder / class_folder.STUDENTS}, {how}."
    )


def renew_course(of: class_folder.ClassFolder, bundle) -> None:
    """Put the course as students get it where they read it. Their own copies of notebooks stay as they are.

    The folder stays the same one: rooms of a hub that was killed go on, and have it.
    """
    with tempfile.TemporaryDirectory(dir=of.path, prefix=".course-") as beside:
        zipped, fresh = Path(beside) / "course.zip", Path(beside) / "course"
        bundle(zipped)
        with zipfile.ZipFile(zipped) as archive:
            archive.extractall(fresh)
        os.chmod(fresh, 0o755)
        tops = list(fresh.iterdir())
        inside = tops[0] if len(tops) == 1 else fresh
        if of.course.exists():
            _make_alike(inside, of.course)
        else:
            shutil.move(inside, of.course)


def _make_alike(fresh: Path, folder: Path) -> None:
    """Give a folder the files of another, which loses them. A file that is read meanwhile is the old or the new one."""
    new = {path.relative_to(fresh) for path in fresh.rglob("*")}
    for name in sorted(new):
        if (fresh / name).is_dir():
            (folder / name).mkdir(exist_ok=True)
        elif not (folder / name).exists() or not filecmp.cmp(fresh / name, folder / name, shallow=False):
            os.replace(fresh / name, folder / name)
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.relative_to(folder) not in new:
            path.rmdir() if path.is_dir() else path.unlink()


def require_ports(of: class_folder.ClassFolder) -> None:
    """Raise Problem where another program has a port of the class's, or its own hub runs already.

    A proxy that a killed hub has left is the class's own: the hub replaces it.
    """
    ports = [of.port + 1] if _left_proxy(of) else [of.port, of.port + 1]
    for port in ports:
        address = of.address if port == of.port else "127.0.0.1"
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind((address, port))
            except OSError as error:
                raise Problem(
                    f"port {port} cannot be taken ({error.strerror}): this class runs already, or another program has "
                    f"it. A class takes four ports from {of.port} on: `port` in {of.path / class_folder.SETTINGS}"
                ) from None


def _left_proxy(of: class_folder.ClassFolder) -> bool:
    """Whether the proxy that a hub of this class started is there."""
    try:
        pid = int((of.hub / "proxy.pid").read_text().split()[0])
        return any(PROXY.name in part for part in psutil.Process(pid).cmdline())
    except (OSError, ValueError, IndexError, psutil.Error):
        return False


def start_hub(folder: Path) -> None:
    """Be the hub. Raises Problem where something that it needs is missing."""
    from utils.grading.run.sandbox import NoSandbox, require_sandbox

    missing = [name for name in ("jupyterhub", "jupyterhub_idle_culler") if importlib.util.find_spec(name) is None]
    if missing or not PROXY.exists():
        raise Problem(f"{', '.join(missing) or 'configurable-http-proxy'} is not installed: run `make setup-hub`")
    try:
        require_sandbox()
    except NoSandbox as error:
        raise Problem(f"students cannot be kept apart: {error}") from None
    require_ports(class_folder.read_class(folder))
    own = {**os.environ, "PYTHONPATH": python_path(), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "jupyterhub", "--config", class_folder.CONFIG]
    os.chdir(folder)
    os.execve(command[0], command, own)
