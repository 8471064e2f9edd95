"""Makes 20,000 files and a folder 800 levels deep, with names that are no text, and takes away its own rights.

honest: everything
"""

# %% first
import os

for _number in range(20_000):
    open(f"{_number}", "w").close()
_start = os.getcwd()
for _ in range(800):
    os.mkdir(b"deep\xff")
    os.chdir(b"deep\xff")
os.chmod(".", 0)
os.chdir(_start)
os.mkdir("closed", 0o000)
