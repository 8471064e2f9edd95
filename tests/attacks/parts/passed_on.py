# What one submission could leave for the next that is forked from the same process: `_look` says what is there,
# `_leave` leaves something.
import fcntl
import os


def _inherited():
    """Open files that were there before the kernel: the same, with their flags, in every fork."""
    for name in os.listdir("/proc/self/fd"):
        if os.path.lexists(f"/proc/self/fd/{name}") and os.readlink(f"/proc/self/fd/{name}") == "/dev/null":
            yield int(name)


def _places():
    own = get_ipython().kernel.parent
    folder = os.path.dirname(own.connection_file)
    above = [folder, os.path.dirname(folder), os.path.dirname(own.ip)]
    return [*above, "/tmp", "/dev/shm", "/dev", "/dev/mqueue", "/run", "/var/tmp", os.path.expanduser("~"), os.getcwd(), "/"]


def _poisons():
    names = ("torch_1000", "torch_shm", "torchinductor_student", "matplotlib", "sitecustomize.py", "usercustomize.py")
    names += (".ipython/profile_default/startup/00.py", ".config/matplotlib/matplotlibrc", ".matplotlib/matplotlibrc")
    names += ("sem.torch", "pymp-poison", ".netrc", ".pythonrc.py", "torch.py", "utils.py", "left-@MARK@")
    return [os.path.join(place, name) for place in _places() for name in names]


def _look():
    for number in _inherited():
        if fcntl.fcntl(number, fcntl.F_GETSIG) or fcntl.fcntl(number, fcntl.F_GETFL) & (os.O_APPEND | os.O_NONBLOCK):
            raise RuntimeError("LOOT: the flags of an open file are those that another submission has set")
    for path in _poisons():
        if os.path.lexists(path):
            raise RuntimeError(f"LOOT: there is {path}, left by another submission")
    for path in ("/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg"):
        with open(path) as file:
            if len(file.readlines()) > 1:
                raise RuntimeError(f"LOOT: {path} has something of another submission")
    with open("/proc/net/unix") as file:
        if "left-@MARK@" in file.read():
            raise RuntimeError("LOOT: a socket of another submission")
    if len([name for name in os.listdir("/proc") if name.isdigit()]) > 3:
        raise RuntimeError("LOOT: processes of others")


def _leave():
    import ctypes
    import socket

    for number in _inherited():
        fcntl.fcntl(number, fcntl.F_SETSIG, 40)
        fcntl.fcntl(number, fcntl.F_SETFL, os.O_APPEND | os.O_NONBLOCK)
    for path in _poisons():
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write("raise SystemExit('poison')\n")
        except OSError:
            pass
    ctypes.CDLL(None).semget(0x4242, 1, 0o1666)
    global _left
    _left = socket.socket(socket.AF_UNIX)
    _left.bind("\0left-@MARK@")
