"""Set up the course's environment in .venv. Needs only Python; `make` calls it before everything else.

    python3 tools/bootstrap.py lab     what a student needs
    python3 tools/bootstrap.py hub     that, and what a class on one machine needs: JupyterHub and its proxy
    python3 tools/bootstrap.py site    what a student needs, and what makes the site
    python3 tools/bootstrap.py test    all of that, and what the tests need, also from the system
    python3 tools/bootstrap.py constraints [--upgrade]    in that environment: write constraints.txt again

Safe to repeat. The second time it finds a stamp and returns at once. uv installs, and takes the build of PyTorch for
the driver that is here; where uv cannot be had, pip installs the usual build. COURSE_TORCH overrides the choice:

    COURSE_TORCH=cpu     the CPU's build, some 200 MB to fetch
    COURSE_TORCH=cuda    the usual one, 3 GB of them for NVIDIA's GPUs
    COURSE_TORCH=keep    the PyTorch that is there, and nothing else

COURSE_TORCH_INDEX names an index to take PyTorch from in place of PyTorch's own, such as a mirror nearer by.
"""

from __future__ import annotations

import ast
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
PIP = [VENV_PYTHON, "-m", "pip", "--disable-pip-version-check", "--no-input"]
CONSTRAINTS = ROOT / "constraints.txt"
SIMGPU = ROOT / "utils" / "simgpu"
OLDEST_PYTHON = (3, 11)
OLDEST_TORCH = (2, 11)
VARIABLE, INDEX_VARIABLE = "COURSE_TORCH", "COURSE_TORCH_INDEX"
WISHES = ("", "cpu", "cuda", "keep")
CPU = "+cpu"  # how the versions of that build end
SECONDS = 10  # for PyTorch's index to answer in
# Free on the disk, in gigabytes, and what a person may expect: of the CPU's build of PyTorch, and of the usual one.
NEEDED = {True: 4, False: 9}
EXPECT = {True: "about 250 MB to fetch with all the rest, 1.2 GB on disk", False: "about 3 GB to fetch, 6 GB on disk"}
EXTRAS = {
    "lab": "lab,grade,generate",
    "hub": "lab,grade,hub,generate",
    "site": "lab,grade,generate,site",
    "test": "lab,grade,hub,cluster,generate,nbgrader,site,test",
}
# JupyterHub's proxy comes from npm. It is in .venv, and goes with it (utils/hub/configure.py looks for it there).
PROXY, PROXY_FOLDER = "configurable-http-proxy", VENV / "share" / "course-hub"
PROXY_VERSIONS = {20: "^5.3", 0: "^4.6"}  # by the oldest Node.js that they run on: Debian 12 has 18
HUB_NEEDS = {"npm": "npm", "bubblewrap": "bwrap"}
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
# Large packages that no server of a student's imports.
WITHOUT_SERVERS = r"/site-packages/(torch|torchvision|sympy|scipy|transformers|triton|nvidia)/"
# Packages that each build of PyTorch pins for itself.
WITH_TORCH = re.compile(r"triton|nvidia-(?!ml-py)|cuda-")
# What pip may be told (pip.conf, PIP_*), in uv's words, and what uv has between several.
AS_UV_SAYS = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "proxy": ("ALL_PROXY", " "),
}


def stop(message: str) -> None:
    sys.exit(f"setup: {message}")


def say(message: str) -> None:
    print(f"setup: {message}", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["constraints"]:
        return write_constraints(*sys.argv[2:])
    if len(sys.argv) != 2 or sys.argv[1] not in EXTRAS:
        stop(f"usage: python3 tools/bootstrap.py {'|'.join(EXTRAS)}|constraints")
    purpose = sys.argv[1]
    if sys.version_info < OLDEST_PYTHON:
        have, need = (".".join(map(str, version)) for version in (sys.version_info[:2], OLDEST_PYTHON))
        stop(f"this is Python {have}, and the course needs {need} or newer. Name one: make PYTHON=python{need} ...")
    if purpose == "test":
        install_system_needs(SYSTEM_NEEDS | HUB_NEEDS, "the tests need")
    if purpose == "hub":
        install_system_needs(HUB_NEEDS, "a class needs")
    wish = os.environ.get(VARIABLE, "").strip().lower()
    if wish not in WISHES:
        stop(f"{VARIABLE}={wish} is none of {', '.join(WISHES[1:])}")
    stamped = (VENV / stamp_name("test")).exists() or (VENV / stamp_name(purpose)).exists()
    if not stamped or moved_from() or contradicts(wish, version_here("torch")):
        started = time.monotonic()
        make_venv(wish)
        install(purpose, wish)
        say(f"done in {time.monotonic() - started:.0f} s, in {VENV.name}/")
    if purpose == "hub":
        say(f"next: {VENV.name}/bin/course hub CLASS --students FILE (docs/classroom.md)")


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


def contradicts(wish: str, version: str | None) -> bool:
    """Whether a PyTorch of this version is not the build that is asked for. Outside of Linux there is one build."""
    if not version or wish not in ("cpu", "cuda") or not sys.platform.startswith("linux"):
        return False
    return version.endswith(CPU) != (wish == "cpu")


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
    other = contradicts(wish, here)
    usable = is_made() and not before and works([VENV_PYTHON, "-m", "pip", "--version"])
    if usable and not other and (here or wish != "keep"):
        return
    if before:
        say(f"{VENV} was made as {before}, which its programs name: making it again")
    if other:
        choose_torch(wish)  # or stop, with what is there as it was
        say(f"{VARIABLE}={wish}, and {VENV.name}/ has torch {here}: making it again")
    kept = existing_torch()
    kept = None if contradicts(wish, kept) else kept
    if wish == "keep" and not kept:
        oldest = ".".join(map(str, OLDEST_TORCH))
        stop(
            f"{VARIABLE}=keep, and {sys.executable} has no PyTorch {oldest} or newer with torchvision. "
            f"Install one, or unset {VARIABLE}"
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


def has_uv() -> bool:
    """Whether uv is in .venv, or pip can put it there."""
    there = [VENV_PYTHON, "-m", "uv", "--version"]
    return works(there) or (works([*PIP, "install", "--constraint", CONSTRAINTS, "uv"]) and works(there))


def settings_for_uv() -> dict[str, str]:
    """The indexes that pip is told of, as uv's variables."""
    listed = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, cwd="/").stdout
    told: dict[str, str] = {}
    for place in ("global", "install", ":env:"):  # the later one counts
        told.update(re.findall(rf"^{place}\.([\w-]+)=(.*)$", listed, re.MULTILINE))
    settings = {}
    for name in told.keys() & AS_UV_SAYS.keys():
        variable, between = AS_UV_SAYS[name]
        settings[variable] = between.join(ast.literal_eval(told[name]).split())
    # As pip does: the newest of all indexes.
    return settings | ({"UV_INDEX_STRATEGY": "unsafe-best-match"} if "UV_INDEX" in settings else {})


def uv(*arguments, settings: dict[str, str] | None = None, **how) -> subprocess.CompletedProcess:
    """Run `uv pip` on .venv, by pip's settings, the person's own for uv, and these."""
    environment = {"UV_NO_WRAP": "1", **settings_for_uv(), **os.environ, **(settings or {})}
    command = [VENV_PYTHON, "-m", "uv", "pip", *arguments, "--python", VENV_PYTHON]
    return subprocess.run(command, env=environment, cwd=ROOT, text=True, **how)


def choose_torch(wish: str) -> dict[str, str]:
    """Say which build of PyTorch is taken and why. Returns uv's settings for it, none for the usual build.

    Stops where the build that is asked for cannot be had.
    """
    index = os.environ.get(INDEX_VARIABLE, "").strip()
    settings = {"UV_TORCH_BACKEND": wish or "auto"}
    if index:
        settings = {"UV_DEFAULT_INDEX": index, "UV_INDEX": "", "UV_FIND_LINKS": ""}
    found, why = ("", f"{VARIABLE}=cuda asks for it") if wish == "cuda" else look_up(settings)
    if wish == "cpu" and (not found or contradicts(wish, found)):
        why = f"{index or 'the index'} has {found}" if found else why
        stop(f"{VARIABLE}=cpu, but {why}. Unset it to take the usual build")
    small = found.endswith(CPU)
    build = f"PyTorch {found}" if found else "the usual build of PyTorch"
    say(f"taking {build} ({EXPECT[small]}): {why}")
    free = shutil.disk_usage(ROOT).free / 1e9
    if free < NEEDED[small]:
        stop(f"{free:.0f} GB free on this disk, and the environment needs {NEEDED[small]}: PyTorch is large")
    return settings if found else {}


def tested() -> list[str]:
    """PyTorch's packages, each with the version that the course was tested with."""
    return re.findall(r"^(?:torch|torchvision)==[\w.]+", CONSTRAINTS.read_text(), re.MULTILINE)


def look_up(settings: dict[str, str]) -> tuple[str, str]:
    """The version of PyTorch that uv finds by these settings, if any, and the reason."""
    if not has_uv():
        return "", "uv, which knows the others, cannot be installed"
    quick = {**settings, "UV_HTTP_TIMEOUT": str(SECONDS), "UV_HTTP_RETRIES": "0"}
    how = {"input": "\n".join(tested()), "capture_output": True, "timeout": 3 * SECONDS}
    where = settings.get("UV_DEFAULT_INDEX", "PyTorch's index")
    try:
        found = uv("compile", "-", "--quiet", "--no-deps", "--no-header", settings=quick, **how)
    except subprocess.TimeoutExpired:
        return "", f"{where} does not answer"
    if version := re.search(r"^torch==(\S+)", found.stdout, re.MULTILINE):
        return version[1], f"{where} has it for this machine"
    said = re.findall(r"[^\W_].*", found.stderr)  # each line without its ornaments
    reason = re.sub(r"^(error|cause): ", "", (said or ["uv gives no reason"])[-1])
    return "", f"{where} offers no other ({reason})"


def install(purpose: str, wish: str) -> None:
    kept = wish == "keep" or sees_the_system()
    here = [f"{name}=={(version_here(name) or '').split('+')[0]}" for name in ("torch", "torchvision")]
    settings = {} if kept or here == tested() else choose_torch(wish)
    if settings and uv("install", "--no-deps", *tested(), settings=settings).returncode:
        if wish == "cpu":
            stop(f"the CPU build could not be fetched (uv's reason is above). Run this again, or unset {VARIABLE}")
        say(f"that could not be fetched (uv's reason is above): taking the usual build, {EXPECT[False]}")
        settings = {}
    say("installing the packages")
    constraints, left_out = VENV / "constraints.txt", []
    lines = [line for line in CONSTRAINTS.read_text().splitlines() if not WITH_TORCH.match(line)]
    if kept:
        lines = [line for line in lines if not re.match("torch(vision)?==", line)]
        (VENV / "left-out.txt").write_text("torch\ntorchvision\n")
        left_out = ["--excludes", VENV / "left-out.txt"]
    constraints.write_text("\n".join(lines) + "\n")
    # simgpu by itself, too: so that SIMGPU=2 gives any script simulated GPUs.
    wanted = ["--constraint", constraints, "--editable", f"{ROOT}[{EXTRAS[purpose]}]", "--editable", SIMGPU]
    backend = {name: value for name, value in settings.items() if name == "UV_TORCH_BACKEND"}
    if not has_uv() or uv("install", *left_out, *wanted, settings=backend).returncode:
        say("uv could not do it: trying pip")
        if subprocess.run([*PIP, "install", "--no-compile", *wanted], cwd=ROOT).returncode:
            stop("pip could not install the packages (its reason is above). Check the network, then run this again")
    if purpose == "hub" or (purpose == "test" and sys.platform.startswith("linux")):
        install_proxy()
    import_once()
    if purpose == "hub":
        compile_for_students()
    (VENV / stamp_name(purpose)).touch()


def write_constraints(*more: str) -> None:
    """Write constraints.txt by what the two projects require. Versions that stand there stay, but for `--upgrade`."""
    if not is_made() or not has_uv():
        stop("uv, which writes constraints.txt, is not there. Run: make setup-test")
    oldest = ".".join(map(str, OLDEST_PYTHON))
    what = ["pyproject.toml", SIMGPU.relative_to(ROOT) / "pyproject.toml", "--all-extras", "--universal"]
    how = ["--python-version", oldest, "--no-annotate", "--output-file", CONSTRAINTS.name, *more]
    settings = {"UV_CUSTOM_COMPILE_COMMAND": "make constraints"}
    if uv("compile", *what, *how, settings=settings, stdout=subprocess.DEVNULL).returncode:
        stop(f"{CONSTRAINTS.name} is as it was: uv found no versions that go together (its reason is above)")


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


def compile_for_students() -> None:
    """Compile all packages: students' servers may not write in the environment, and each would compile them again.

    PyTorch and what comes with it is left out: a minute more, and kernels have what they use of it from `import_once`.
    """
    say("compiling what students' servers import")
    packages = next((VENV / "lib").glob("python3.*/site-packages"))
    command = [VENV_PYTHON, "-m", "compileall", "-q", "-j", "0", "-x", WITHOUT_SERVERS, packages]
    subprocess.run(command, stdout=subprocess.DEVNULL)  # some packages have files for other versions of Python


def install_proxy() -> None:
    if not (shutil.which("node") and shutil.which("npm")):
        stop("a class needs npm, which brings JupyterHub's proxy: install Node.js (https://nodejs.org), then try again")
    told = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout
    number = int(re.sub(r"\D.*", "", told.strip().lstrip("v")) or 0)
    version = next(version for oldest, version in PROXY_VERSIONS.items() if number >= oldest)
    say(f"fetching {PROXY} {version} with npm")
    PROXY_FOLDER.mkdir(parents=True, exist_ok=True)
    quiet = ["--no-fund", "--no-audit", "--no-update-notifier", "--loglevel=error"]
    done = subprocess.run(["npm", "install", *quiet, "--prefix", PROXY_FOLDER, f"{PROXY}@{version}"], cwd=PROXY_FOLDER)
    if done.returncode:
        stop("npm could not install JupyterHub's proxy (its reason is above)")


def install_system_needs(needs: dict[str, str], why: str) -> None:
    missing = [package for package, need in needs.items() if not is_there(need)]
    if not missing:
        return
    if not sys.platform.startswith("linux"):
        say(f"not on Linux: {why} {', '.join(missing)}. Tests that need them are skipped, and say so")
        return
    install_debian_packages(missing, f"{why} {', '.join(missing)}")


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
