"""Raises its own limits, those of others, and starts 300 processes where a user namespace might not count them.

honest: everything
"""

# %% first
import os
import resource
import subprocess

for _name in ("DATA", "CPU", "NPROC", "FSIZE", "NOFILE", "CORE"):
    _kind = getattr(resource, f"RLIMIT_{_name}")
    _soft, _hard = resource.getrlimit(_kind)
    if _hard == resource.RLIM_INFINITY:
        raise RuntimeError(f"LOOT: there is no limit of {_name}")
    for _more in (_hard + 1, resource.RLIM_INFINITY):
        try:
            resource.setrlimit(_kind, (_more, _more))
        except (OSError, ValueError):
            continue
        raise RuntimeError(f"LOOT: the limit of {_name} was raised")
    for _number in {1, os.getppid()} - {os.getpid()}:
        try:
            resource.prlimit(_number, _kind, (0, 0))
        except OSError:
            continue
        raise RuntimeError(f"LOOT: the limit of {_name} of process {_number} was changed")
_script = "for number in $(seq 300); do sleep 6 >&- 2>&- & done 2>/dev/null; jobs -p | wc -l"
for _how in (["bash", "-c", _script], ["unshare", "-Ur", "bash", "-c", f"ulimit -u unlimited; {_script}"]):
    _done = subprocess.run(_how, capture_output=True, text=True)
    # What bash leaves where it may not fork any more would count as left running when the cell ends.
    for _number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{_number}/comm") as _name:
                if _name.read() == "sleep\n":
                    os.kill(int(_number), 9)
        except OSError:
            pass
    _started = _done.stdout.split()
    if _started and int(_started[-1]) > 250:
        raise RuntimeError(f"LOOT: {_started[-1]} processes at once")
