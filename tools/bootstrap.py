"""Set up the course's environment in .venv. Needs only Python; `make` calls it before everything else.

    python3 tools/bootstrap.py lab     what a student needs
    python3 tools/bootstrap.py test    that, and what the tests need, also from the system

Safe to repeat. The second time it finds a stamp and returns at once.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
OLDEST_PYTHON = (3, 11)
OLDEST_TORCH = (2, 11)
GIGABYTES_NEEDED = 9
EXTRAS = {"lab": "lab,grade", "test": "lab,grade,cluster,nbgrader,test"}
# The tests' needs outside Python, by Debian package: a program, a library (playwright's driver loads that one), or a
# file. The compiler is for the stand-in of NVIDIA's library.
SYSTEM_NEEDS = {
    "chromium": "chromium",
    "bubblewrap": "bwrap",
    "libatomic1": "libatomic.so.1",
    "gcc": "cc",
    "libc6-dev": "/usr/include/stdio.h",
}
# Packages that come with PyTorch: left alone where PyTorch is already installed.
WITH_TORCH = re.compile(r"^(torch|torchvision|triton|nvidia-(?!ml-py).*|cuda-.*)$")


def stop(message: str) -> None:
    sys.exit(f"setup: {message}")


def say(message: str) -> None:
    print(f"setup: {message}", flush=True)


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1] not in EXTRAS:
        stop(f"usage: python3 tools/bootstrap.py {'|'.join(EXTRAS)}")
    purpose = sys.argv[1]
    if sys.version_info < OLDEST_PYTHON:
        have, need = (".".join(map(str, version)) for version in (sys.version_info[:2], OLDEST_PYTHON))
        stop(f"this is Python {have}, and the course needs {need} or newer. Name one: make PYTHON=python{need} ...")
    if purpose == "test":
        install_system_needs()
    if (VENV / stamp_name("test")).exists() or (VENV / stamp_name(purpose)).exists():
        return
    started = time.monotonic()
    make_venv()
    install(purpose)
    say(f"done in {time.monotonic() - started:.0f} s, in {VENV.name}/")


def stamp_name(purpose: str) -> str:
    """A file that says 'installed for this purpose, from these requirements, with this Python'."""
    state = hashlib.sha256()
    for part in (ROOT / "pyproject.toml", ROOT / "constraints.txt", Path(__file__)):
        state.update(part.read_bytes())
    state.update(f"{sys.base_prefix} {sys.version}".encode())
    return f"installed-for-{purpose}-{state.hexdigest()[:16]}"


def existing_torch() -> str | None:
    """The version of a PyTorch that this Python already has and the course can use, else None."""
    if VENV_PYTHON.exists() and sys.prefix == str(VENV):
        return None
    probe = "import torch, torchvision; print(torch.__version__)"
    found = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, cwd="/")
    version = found.stdout.strip()
    numbers = tuple(int(n) for n in re.findall(r"\d+", version)[:2])
    return version if found.returncode == 0 and numbers >= OLDEST_TORCH else None


def make_venv() -> None:
    if VENV_PYTHON.exists() and works([VENV_PYTHON, "-m", "pip", "--version"]):
        return
    try:
        import ensurepip  # noqa: F401  (Debian keeps it in a package of its own)
    except ImportError:
        package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
        install_debian_packages([package], "Python cannot make virtual environments here")
    kept = existing_torch()
    say(f"making {VENV.name}/" + (f", keeping the torch {kept} that is already here" if kept else ""))
    options = ["--clear"] + (["--system-site-packages"] if kept else [])
    if subprocess.run([sys.executable, "-m", "venv", *options, VENV]).returncode:
        stop(f"could not make {VENV}: is the folder writable, and is the disk full?")


def install(purpose: str) -> None:
    kept = works([VENV_PYTHON, "-c", "import torch, torchvision"])
    free = shutil.disk_usage(ROOT).free / 1e9
    if not kept and free < GIGABYTES_NEEDED:
        stop(f"{free:.0f} GB free on this disk, and the environment needs {GIGABYTES_NEEDED}: PyTorch is large")
    say("installing packages" + ("" if kept else " (PyTorch is large: about 3 GB to fetch, 6 GB on disk)"))
    constraints = VENV / "constraints.txt"
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    shared = (VENV / "pyvenv.cfg").read_text().lower().replace(" ", "")
    if "include-system-site-packages=true" in shared:
        lines = [line for line in lines if not WITH_TORCH.match(line.split("==")[0].strip())]
    constraints.write_text("\n".join(lines) + "\n")
    command = [VENV_PYTHON, "-m", "pip", "install", "--disable-pip-version-check"]
    command += ["--constraint", constraints, "--editable", f"{ROOT}[{EXTRAS[purpose]}]"]
    if subprocess.run(command, cwd=ROOT).returncode:
        stop("pip could not install the packages (its reason is above). Check the network, then run this again")
    (VENV / stamp_name(purpose)).touch()


def install_system_needs() -> None:
    missing = [package for package, need in SYSTEM_NEEDS.items() if not is_there(need)]
    if not missing:
        return
    if not sys.platform.startswith("linux"):
        say(f"not on Linux: the tests that need {', '.join(missing)} are skipped, and say so")
        return
    install_debian_packages(missing, f"the tests need {', '.join(missing)}")


def is_there(need: str) -> bool:
    if need.startswith("/"):
        return Path(need).exists()
    if ".so." not in need:
        return shutil.which(need) is not None
    try:
        ctypes.CDLL(need)
    except OSError:
        return False
    return True


def install_debian_packages(packages: list[str], why: str) -> None:
    """Install with apt-get where that needs no password, otherwise stop and name the command."""
    command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    may = shutil.which("apt-get") and (not sudo or (shutil.which("sudo") and works(["sudo", "-n", "true"])))
    if not may:
        stop(f"{why}. Run: sudo {' '.join(command)}")
    say(f"{why}: installing {', '.join(packages)} with apt-get")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["apt-get", "update", "-qq"], [*command[:2], "-qq", *command[2:]]):
        done = subprocess.run([*sudo, *step], env=environment, capture_output=True, text=True)
    if done.returncode:
        stop(f"{why}, and apt-get failed: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")


def works(command: list) -> bool:
    return subprocess.run(command, capture_output=True, cwd="/").returncode == 0


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        stop("interrupted. Run it again: it goes on where it stopped")
