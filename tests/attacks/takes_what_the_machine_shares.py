"""Takes semaphores, slots of asynchronous input and output, and message queues, which belong to no process.

honest: everything
"""

# %% first
import subprocess
import sys

_code = """
import ctypes, platform
libc = ctypes.CDLL(None, use_errno=True)
numbers = {"x86_64": {"semget": 64, "io_setup": 206, "mq_open": 240}, "aarch64": {"semget": 190, "io_setup": 0, "mq_open": 180}}
call = numbers[platform.machine()]
slots = ctypes.c_ulong(0)
got = [libc.syscall(call["semget"], 0, 1000, 0o1600) >= 0]
got.append(libc.syscall(call["io_setup"], 10, ctypes.byref(slots)) == 0)
got.append(libc.syscall(call["mq_open"], b"mine", 0o100 | 2, 0o600, None) >= 0)
print(got)
"""
_told = subprocess.run([sys.executable, "-S", "-c", _code], capture_output=True, text=True).stdout
if _told.strip() != "[False, False, False]":
    raise RuntimeError(f"LOOT: {_told}")
