"""Set up the course's environment in .venv. Needs only Python; `make` calls it before everything else.

    python3 tools/bootstrap.py lab     what a student needs
    python3 tools/bootstrap.py site    that, and what makes the site
    python3 tools/bootstrap.py test    all of that, and what the tests need, also from the system

Safe to repeat. The second time it finds a stamp and returns at once. Which build of PyTorch: torch_build.py.
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

import torch_build
from progress import run_pip

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
CONSTRAINTS = ROOT / "constraints.txt"
SIMGPU = ROOT / "utils" / "simgpu"
OLDEST_PYTHON = (3, 11)
OLDEST_TORCH = (2, 11)
# Free on the disk, in gigabytes, and what a person may expect: of the CPU's build of PyTorch, and of the usual one.
NEEDED = {True: 4, False: 9}
EXPECT = {True: "about 250 MB to fetch with all the rest, 1.2 GB on disk", False: "about 3 GB to fetch, 6 GB on disk"}
EXTRAS = {"lab": "lab,grade", "site": "lab,grade,site", "test": "lab,grade,cluster,nbgrader,site,test"}
# The tests' needs outside Python, by Debian package: a program, a library (playwright's driver loads that one), or a
# file. The compiler is for the stand-in of NVIDIA's library.
SYSTEM_NEEDS = {
    "chromium": "chromium",
    "bubblewrap": "bwrap",
    "libatomic1": "libatomic.so.1",
    "gcc": "cc",
    "libc6-dev": "/usr/include/stdio.h",
}
# What is used first: Python compiles a module when it is first imported, and all of them would take a minute.
USED_FIRST = "matplotlib.pyplot, pandas, ipykernel.kernelapp, ipywidgets, anywidget, nbclient, jupyterlab.labapp"
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
    try:
        wish = torch_build.wish()
    except ValueError as error:
        stop(str(error))
    stamped = (VENV / stamp_name("test")).exists() or (VENV / stamp_name(purpose)).exists()
    if stamped and not moved_from() and not torch_build.contradicts(wish, version_here("torch")):
        return
    started = time.monotonic()
    make_venv(wish)
    if not keeps_torch(wish) and any((version_here(name) or "").split("+")[0] != v for name, v in tested().items()):
        fetch_torch(wish)
    install(purpose, wish)
    say(f"done in {time.monotonic() - started:.0f} s, in {VENV.name}/")


def stamp_name(purpose: str) -> str:
    """A file that says 'installed for this purpose, from these requirements, with this Python'."""
    state = hashlib.sha256()
    for part in (ROOT / "pyproject.toml", SIMGPU / "pyproject.toml", CONSTRAINTS, Path(__file__)):
        state.update(part.read_bytes())
    state.update(f"{sys.base_prefix} {sys.version}".encode())
    return f"installed-for-{purpose}-{state.hexdigest()[:16]}"


def version_here(package: str) -> str | None:
    """The version of a package that .venv has or can see, else None."""
    ask = f"from importlib.metadata import version; print(version({package!r}))"
    found = subprocess.run([VENV_PYTHON, "-c", ask], capture_output=True, text=True, cwd="/") if is_made() else None
    return found.stdout.strip() if found and found.returncode == 0 else None


def is_made() -> bool:
    return VENV_PYTHON.exists()


def moved_from() -> str:
    """The folder that .venv was made in, if it has been moved or copied since: its programs name that folder."""
    about = VENV / "pyvenv.cfg"
    if not about.exists():
        return ""
    made = re.search(r"^command = .* -m venv (?:--\S+ )*(.*)$", about.read_text(), re.MULTILINE)
    here = {str(VENV), str(VENV.resolve())}
    return made[1] if made and not here & {made[1], str(Path(made[1]).resolve())} else ""


def sees_the_system() -> bool:
    """Whether .venv keeps what the Python has that it was made with."""
    return "include-system-site-packages=true" in (VENV / "pyvenv.cfg").read_text().lower().replace(" ", "")


def existing_torch() -> str | None:
    """The version of a PyTorch that this Python already has and the course can use, else None."""
    if is_made() and sys.prefix == str(VENV):
        return None
    # Asked from a virtual environment, `venv` passes on what the Python below it has.
    python = Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    probe = "import torch, torchvision; print(torch.__version__)"
    found = subprocess.run([python, "-c", probe], capture_output=True, text=True, cwd="/")
    version = found.stdout.strip()
    numbers = tuple(int(n) for n in re.findall(r"\d+", version)[:2])
    return version if found.returncode == 0 and numbers >= OLDEST_TORCH else None


def make_venv(wish: str) -> None:
    """Make .venv, unless there is one that works and has no other build of PyTorch than `wish` asks for."""
    before = moved_from()
    here = None if before else version_here("torch")
    other = torch_build.contradicts(wish, here)
    usable = is_made() and not before and works([VENV_PYTHON, "-m", "pip", "--version"])
    if usable and not other and (here or wish != "keep"):
        return
    if before:
        say(f"{VENV} was made as {before}, which its programs name: making it anew")
    if other:
        choose(wish)  # or stop, with what is there as it was
        say(f"{torch_build.VARIABLE}={wish}, and {VENV.name}/ has torch {here}: making it anew")
    kept = existing_torch()
    kept = None if torch_build.contradicts(wish, kept) else kept
    if wish == "keep" and not kept:
        oldest = ".".join(map(str, OLDEST_TORCH))
        stop(
            f"{torch_build.VARIABLE}=keep, and {sys.executable} has no PyTorch {oldest} or newer with torchvision. "
            f"Install one, or unset {torch_build.VARIABLE}"
        )
    try:
        import ensurepip  # noqa: F401  (Debian keeps it in a package of its own)
    except ImportError:
        package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
        install_debian_packages([package], "Python cannot make virtual environments here")
    say(f"making {VENV.name}/" + (f", keeping the torch {kept} that is already here" if kept else ""))
    place = VENV.resolve()  # a link may say where it is to be, on a larger disk; venv itself follows none
    options = ["--clear"] + (["--system-site-packages"] if kept else [])
    if subprocess.run([sys.executable, "-m", "venv", *options, place]).returncode:
        stop(f"could not make {place}: is the folder writable, and is the disk full?")


def keeps_torch(wish: str) -> bool:
    return wish == "keep" or sees_the_system()


def tested() -> dict[str, str]:
    """The versions of PyTorch's packages that the course was tested with."""
    return dict(re.findall(r"^(torch|torchvision)==(\S+)$", CONSTRAINTS.read_text(), re.MULTILINE))


def choose(wish: str) -> torch_build.Choice:
    """Which build to take, or stop where the one that is asked for cannot be had."""
    try:
        return torch_build.choose(wish, tested())
    except torch_build.Unanswered as reason:
        stop(f"{torch_build.VARIABLE}={wish}, but {reason}. Unset it to take the usual build")


def fetch_torch(wish: str) -> None:
    """Say which build of PyTorch is taken and why, and fetch it if it is the CPU's; pip finds the usual one itself."""
    index, why = choose(wish)
    small = index is not None
    say(f"PyTorch: {'the CPU build' if small else 'the usual build'} ({EXPECT[small]}), because {why}")
    free = shutil.disk_usage(ROOT).free / 1e9
    if free < NEEDED[small]:
        stop(f"{free:.0f} GB free on this disk, and the environment needs {NEEDED[small]}: PyTorch is large")
    if not small:
        return
    pinned = [f"{name}=={version}{torch_build.CPU}" for name, version in tested().items()]
    if pip_install("--no-deps", "--timeout", "15", "--retries", "1", "--index-url", index, *pinned):
        return
    if wish == "cpu":
        stop("the CPU build could not be fetched (pip's reason is above). Run this again, or unset COURSE_TORCH")
    say("the CPU build could not be fetched (pip's reason is above): taking the usual one, " + EXPECT[False])


def install(purpose: str, wish: str) -> None:
    say("installing the packages")
    constraints = VENV / "constraints.txt"
    lines = CONSTRAINTS.read_text().splitlines()
    if keeps_torch(wish):
        lines = [line for line in lines if not WITH_TORCH.match(line.split("==")[0].strip())]
    constraints.write_text("\n".join(lines) + "\n")
    # simgpu by itself, too: so that SIMGPU=2 gives any script simulated GPUs.
    editable = ["--editable", f"{ROOT}[{EXTRAS[purpose]}]", "--editable", str(SIMGPU)]
    if not pip_install("--constraint", str(constraints), *editable):
        stop("pip could not install the packages (its reason is above). Check the network, then run this again")
    import_once()
    (VENV / stamp_name(purpose)).touch()


def import_once() -> None:
    """See that PyTorch can be imported, and compile it and what else is used first."""
    say("importing everything once")
    with subprocess.Popen([VENV_PYTHON, "-c", f"import {USED_FIRST}"], stderr=subprocess.DEVNULL, cwd="/"):
        found = subprocess.run(
            [VENV_PYTHON, "-c", "import torch, torchvision"], stderr=subprocess.PIPE, text=True, cwd="/"
        )
    if found.returncode:
        reason = (found.stderr.strip().splitlines() or ["no reason given"])[-1]
        stop(f"PyTorch is installed and cannot be imported: {reason}. Remove {VENV.name}/ (make clean), then try again")


def pip_install(*what: str) -> bool:
    packages = next((VENV / "lib").glob("python*/site-packages"))
    return run_pip([VENV_PYTHON, "-m", "pip", "install", "--no-compile", *what], packages, VENV / "setup.log", cwd=ROOT)


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
