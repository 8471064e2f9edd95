"""Tries to get out of a sandbox: mounts, namespaces, setuid programs, ptrace, kernel keys, device files, /proc/sys.

honest: everything
"""

# %% first
import ctypes
import os
import subprocess

_libc = ctypes.CDLL(None, use_errno=True)
_out = []
if os.geteuid() == 0:
    _out.append("it runs as root")
if _libc.mount(b"none", b"/mnt", b"tmpfs", 0, None) == 0:
    _out.append("it can mount")
for _path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper", "/dev/mem", "/dev/vda"):
    if os.access(_path, os.W_OK):
        _out.append(f"{_path} can be written to")
try:
    os.mknod("/tmp/@MARK@-node", 0o600 | 0o060000, os.makedev(8, 0))
    os.unlink("/tmp/@MARK@-node")
    _out.append("it can make device files")
except OSError:
    pass
for _command in (["sudo", "-n", "true"], ["su", "-c", "true"], ["chroot", "/", "true"]):
    try:
        if subprocess.run(_command, capture_output=True, timeout=3, stdin=subprocess.DEVNULL).returncode == 0:
            _out.append(f"{_command[0]} works")
    except (OSError, subprocess.SubprocessError):
        pass
if os.path.exists("/run/docker.sock") or os.path.exists("/var/run/docker.sock"):
    _out.append("the docker socket is there")
if _out:
    raise RuntimeError(f"LOOT: {_out}")
