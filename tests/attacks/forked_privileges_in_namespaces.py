"""Looks for privileges: namespaces of its own, those of process 1, setuid programs, kept capabilities, /proc/sys.

honest: everything
"""

# %% first
import ctypes
import os
import subprocess

_libc = ctypes.CDLL(None, use_errno=True)
_status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
for _name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    if int(_status[_name], 16):
        raise RuntimeError(f"LOOT: {_name} is {_status[_name]}")
if _status["NoNewPrivs"] != "1" or _status["Groups"].strip() not in ("", _status["Gid"].split()[0]):
    raise RuntimeError(f"LOOT: new privileges, or groups: {_status['NoNewPrivs']} {_status['Groups']}")
for _flags in (0x10000000, 0x10020000, 0x50000000, 0x30000000, 0x00020000, 0x40000000, 0x08000000):
    if os.fork() == 0:
        os._exit(_libc.unshare(_flags) == 0)
    if os.waitstatus_to_exitcode(os.wait()[1]) == 1:
        raise RuntimeError(f"LOOT: it can unshare {_flags:x}")
for _space in ("user", "mnt", "net", "pid", "ipc", "uts", "cgroup"):
    for _number in (1, os.getppid()):
        try:
            _file = os.open(f"/proc/{_number}/ns/{_space}", os.O_RDONLY)
        except OSError:
            continue
        raise RuntimeError(f"LOOT: the namespace {_space} of process {_number} can be opened")
    if _libc.setns(os.open(f"/proc/self/ns/{_space}", os.O_RDONLY), 0) == 0:
        raise RuntimeError(f"LOOT: it can enter the namespace {_space}")
for _uid in (0, 1):
    for _call in (os.setuid, os.setgid, os.seteuid):
        try:
            _call(_uid)
        except OSError:
            continue
        raise RuntimeError(f"LOOT: {_call.__name__}({_uid}) is allowed")
for _folder in ("/proc/sys/kernel", "/proc/sys/vm", "/proc/sys/net/ipv4", "/proc/sys/user", "/proc/sys/fs"):
    for _name in os.listdir(_folder):
        _path = os.path.join(_folder, _name)
        try:
            with open(_path, "r+") as _file:
                _file.write(_file.read())
        except (OSError, ValueError):
            continue
        raise RuntimeError(f"LOOT: {_path} can be written to")
for _program in ("su", "mount", "passwd", "newuidmap", "chsh", "umount"):
    try:
        _out = subprocess.run([_program, "--help"], capture_output=True, timeout=3, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        continue
for _command in (["umount", "/proc"], ["umount", "-l", "/tmp"], ["mount", "-o", "remount,rw", "/"]):
    try:
        _out = subprocess.run(_command, capture_output=True, timeout=3, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        continue
    if _out.returncode == 0:
        raise RuntimeError(f"LOOT: {_command} works")
