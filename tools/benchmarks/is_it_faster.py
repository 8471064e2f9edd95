"""How often lab 04's rule sees a difference where there is none, and where there is one. Run it by hand (10 seconds):

.venv/bin/python -m tools.benchmarks.is_it_faster

The model answer times work that takes a made-up time: normal noise, the same for both, and where there is a difference
b takes 0.8 of the standard deviation of a pair's difference longer. With a slow run one run of a takes a hundred times
that deviation longer. The rule that the lab had before is there to compare with.
"""

import math
import random
import statistics

from utils.common.files import ROOT
from utils.common.notebook_format import nbformat

REPEATS = (2, 5, 10, 50)
DIFFERENCE = 0.8


def model_answer():
    """`faster` of the lab's solution."""
    [path] = (ROOT / "solutions" / "lab04").glob("*.ipynb")
    [source] = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.id == "lab04-ex2"]
    namespace = {"math": math, "statistics": statistics, "synchronize": None}
    exec(source, namespace)
    return namespace["faster"]


def old_rule(work_a, work_b, gpus, clock, repeats):
    def seconds(work):
        begin = clock()
        work()
        return clock() - begin

    work_a()
    work_b()
    differences = []
    for _ in range(repeats):
        a = seconds(work_a)
        differences.append(seconds(work_b) - a)
    if abs(statistics.median(differences)) <= statistics.stdev(differences):
        return "cannot tell"
    return "a" if statistics.median(differences) > 0 else "b"


class Noisy:
    """Work and a clock: the work moves the clock on."""

    def __init__(self, times):
        self.now, self.times = 0.0, times

    def work(self):
        self.now += next(self.times)


def answers(faster, repeats, *, longer, slow, trials, seed=0):
    """What `faster` says in so many comparisons, as {"a": share, ...}."""
    numbers = random.Random(seed)
    deviation = 1 / math.sqrt(2)  # of one run, so that a pair's difference has 1
    found = dict.fromkeys(("a", "b", "cannot tell"), 0)
    for _ in range(trials):
        times_a = [10 + numbers.gauss(0, deviation) for _ in range(repeats + 1)]
        times_b = [10 + numbers.gauss(longer, deviation) for _ in range(repeats + 1)]
        times_a[1] += 100 if slow else 0  # the run behind the one that warms up
        a, b = Noisy(iter(times_a)), Noisy(iter(times_b))
        found[faster(a.work, b.work, [], lambda a=a, b=b: a.now + b.now, repeats)] += 1
    return {answer: count / trials for answer, count in found.items()}


def false_alarms(faster, repeats, *, slow, trials):
    return 1 - answers(faster, repeats, longer=0.0, slow=slow, trials=trials)["cannot tell"]


def power(faster, repeats, *, slow, trials):
    return answers(faster, repeats, longer=DIFFERENCE, slow=slow, trials=trials)["a"]


def main(trials=4000):
    print("| rule | slow run | false alarms at " + ", ".join(map(str, REPEATS)) + " pairs | found at the same |")
    print("| --- | --- | --- | --- |")
    for name, faster in (("median beyond stdev", old_rule), ("interval for the median", model_answer())):
        for slow in (False, True):
            alarms = [f"{false_alarms(faster, n, slow=slow, trials=trials):.1%}" for n in REPEATS]
            found = [f"{power(faster, n, slow=slow, trials=trials):.1%}" for n in REPEATS]
            print(f"| {name} | {'one' if slow else 'none'} | {', '.join(alarms)} | {', '.join(found)} |")


if __name__ == "__main__":
    main()
