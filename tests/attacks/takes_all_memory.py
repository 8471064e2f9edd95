"""A cell takes memory, touches it, and goes on until it gets no more (never more than half of what is free).

honest: everything
"""

# %% first
_free = int(next(line for line in open("/proc/meminfo") if line.startswith("MemAvailable")).split()[1]) * 1024
_taken, _bound = [], min(_free // 2, 6 * 2**30)
while len(_taken) * 2**27 < _bound:
    _taken.append(bytearray(2**27))
raise RuntimeError("LOOT: all the memory that was asked for was given")
