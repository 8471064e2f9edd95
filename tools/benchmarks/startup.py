"""How long a learner waits: what the course adds to importing PyTorch, and one check. Run it by hand:

.venv/bin/python -m tools.benchmarks.startup
"""

import statistics
import subprocess
import sys
import time

START = """
import time
begin = time.perf_counter()
import torch
middle = time.perf_counter()
import utils
import simgpu
simgpu.enable(count=2)
end = time.perf_counter()
print(middle - begin, end - middle)
"""


def start_up(repeats: int = 7) -> None:
    runs = [subprocess.check_output([sys.executable, "-c", START], text=True).split() for _ in range(repeats)]
    torch_seconds, ours = (statistics.median(float(run[i]) for run in runs) for i in (0, 1))
    print(f"import torch                         {torch_seconds:7.3f} s   (median of {repeats} fresh processes)")
    print(f"import utils, simgpu.enable(count=2) {ours:7.3f} s   {ours / torch_seconds:.1%} of it")


def checks(lab: str = "lab01") -> None:
    from tests.support.notebooks import notebook_with, run_here
    from utils.exercises.check import checker

    check = checker(lab, run_here(notebook_with(lab, {})))
    for exercise in check().lab.exercises:
        begin = time.perf_counter()
        assert check(exercise).passed
        print(f'{lab}: check("{exercise}")                  {time.perf_counter() - begin:7.3f} s')


if __name__ == "__main__":
    start_up()
    checks()
