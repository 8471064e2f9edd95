"""Eight children take 800 MB each: no process has much, together they have all.

honest: everything
may lose: everything
"""

# %% first
import os
import time

_free = int(next(line for line in open("/proc/meminfo") if line.startswith("MemAvailable")).split()[1]) * 1024
_each = min(_free // 16, 800 * 2**20)
_reading, _writing = os.pipe()
for _ in range(8):
    if os.fork() == 0:
        try:
            _mine = bytearray(_each)
            os.write(_writing, b"x")
            time.sleep(3)
        finally:
            os._exit(0)
time.sleep(3)
os.set_blocking(_reading, False)
_got = len(os.read(_reading, 100))
if _got == 8 and _each * 8 > 4.5 * 2**30:
    raise RuntimeError("LOOT: the children had more memory together than one submission may have")
