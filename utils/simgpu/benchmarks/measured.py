"""How near simulated times come to what others measured on real GPUs (benchmarks/data). Run it by hand:

    .venv/bin/python -m utils.simgpu.benchmarks.measured [FILE.json ...]

Files are what `course measure` has made on real GPUs: they are checked, and come beside the published rows.
It prints operators by set, GPU, family and dtype, and recurrent layers; then how well constants do that are fitted on
half of the sources or GPUs and judged on the other half; then whole models. It draws docs/images/measured.png. The
predictions are those that a student sees: the operator called on simulated tensors. `ratio` is the median of predicted
over measured, `error` the median of |ratio - 1|. `roofline` is what FLOPs over the peak or bytes over bandwidth, the
longer, would predict. A group is the rows of one set, GPU, family, dtype and direction.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from statistics import mean, median

import simgpu
from simgpu import cost, long_way, plans, profiles
from simgpu.profiles import GPUS

from . import measurements, published_models
from .measurements import PROFILES, Row

FIGURE = Path(__file__).parents[3] / "docs" / "images" / "measured.png"


def error(ratios: Iterable[float]) -> float:
    return median(abs(ratio - 1) for ratio in ratios)


def by(key: Callable, rows: Iterable[Row], values: Iterable[float]) -> dict[tuple, list[float]]:
    """Values of rows by what they have in common."""
    groups = defaultdict(list)
    for row, value in zip(rows, values, strict=True):
        groups[key(row)].append(value)
    return dict(sorted(groups.items()))


def summary(rows: list[Row], ratios: list[float]) -> tuple[float, float]:
    """(error of all rows together, mean of the groups' errors)."""
    groups = by(lambda row: row.group, rows, ratios)
    return error(ratios), mean(error(group) for group in groups.values())


# --- constants fitted on one half, judged on the other ------------------------------------------------------------

# Where fitting begins: what one would say without any measurement.
OF_COST = {
    "OVERLAP": 0.5,
    "PRODUCT_RAMP": 2.0,
    "CONVOLUTION_RAMP": 2.0,
    "CONVOLUTION": 1.0,
    "WINOGRAD": 2.25,
    "STRIDED_INPUT_GRADIENT": 1.0,
    "WEIGHT_GRADIENT": 1.0,
}
# The shares of profiles, each with the field that has it. All begin at the same.
OF_PROFILES = {
    "OWN_INTEGERS": "efficiency",
    "SHARED_INTEGERS": "efficiency",
    "LOW_POWER": "efficiency",
    "TENSOR_CORES": "tensor_efficiency",
    "LOW_POWER_TENSOR_CORES": "tensor_efficiency",
    "HBM": "streams",
    "GDDR": "streams",
}
BEGIN = OF_COST | dict.fromkeys(OF_PROFILES, 0.8)
STEPS = (0.7, 0.85, 0.93, 1.07, 1.18, 1.4)
Constants = dict[str, float]


class Calls:
    """What the rows' operators were called with, so that their cost can be worked out again with other constants."""

    def __init__(self, rows: list[Row]):
        self.of: list[list[tuple]] = []
        before, last = (long_way.work_of, long_way.seconds_for), []

        def work_of(*call):
            last[:] = call
            return before[0](*call)

        def seconds_for(gpu, work):
            self.of[-1].append(tuple(last))
            return before[1](gpu, work)

        long_way.work_of, long_way.seconds_for = work_of, seconds_for
        try:
            for row in rows:
                plans.forget_plans()  # or a call like an earlier one would not come by
                self.of.append([])
                measurements.predicted([row], before=self.of[-1].clear)
        finally:
            long_way.work_of, long_way.seconds_for = before

    def ratios(self, rows: list[Row], chosen: list[int], constants: Constants) -> list[float]:
        """Predicted over measured of the chosen rows."""
        fields = {(field, getattr(profiles, name)): constants[name] for name, field in OF_PROFILES.items()}
        known = {name: getattr(cost, name) for name in OF_COST}
        try:
            for name in OF_COST:
                setattr(cost, name, constants[name])
            return [self._seconds(_with(rows[i], fields), i) / rows[i].seconds for i in chosen]
        finally:
            for name, value in known.items():
                setattr(cost, name, value)

    def _seconds(self, gpu, index: int) -> float:
        return sum(cost.seconds_for(gpu, cost.work_of(*call)) for call in self.of[index])


def _with(row: Row, fields: dict) -> profiles.GpuProfile:
    """The profile of a row's GPU with other shares: `fields` has them by (field, share that there is)."""
    gpu = GPUS[PROFILES[row.gpu]]
    there = {field: (field, getattr(gpu, field)) for field in OF_PROFILES.values()}
    return replace(gpu, **{field: fields[share] for field, share in there.items() if share in fields})


def fitted(calls: Calls, rows: list[Row], chosen: list[int], rounds: int = 4) -> Constants:
    """The constants that do best on the chosen rows: from where fitting begins each in turn smaller or larger."""
    there = [rows[i] for i in chosen]

    def loss(constants):
        return sum(summary(there, calls.ratios(rows, chosen, constants)))

    best, least = dict(BEGIN), loss(BEGIN)
    for _ in range(rounds):
        for name in best:
            for step in STEPS:
                other = best | {name: best[name] * step}
                if (found := loss(other)) < least - 1e-4:
                    least, best = found, other
    return best


SPLITS = {
    "sources": lambda row: row.set in ("NeuSight ops", "DeepBench"),
    "GPUs": lambda row: row.gpu.startswith(("V100", "P100")),
}


def print_splits(rows: list[Row]) -> None:
    calls = Calls(rows)
    print("\nconstants fitted on one half, judged on the other          rows   pooled   groups")
    for name, belongs in SPLITS.items():
        for first in (True, False):
            half = [i for i, row in enumerate(rows) if belongs(row) == first]
            others = [i for i, row in enumerate(rows) if belongs(row) != first]
            ratios = calls.ratios(rows, others, fitted(calls, rows, half))
            pooled, groups = summary([rows[i] for i in others], ratios)
            what = ", ".join(sorted({rows[i].set if name == "sources" else rows[i].gpu for i in others}))
            print(f"{name}: {what:<50.50}{len(others):>5}{pooled:>9.1%}{groups:>9.1%}")


# --- tables and the figure ----------------------------------------------------------------------------------------


def print_table(key: Callable, rows: list[Row], ratios: list[float], roofline: list[float]) -> None:
    print(f"{'':<62}{'rows':>5}{'ratio':>7}{'error':>7}   {'roofline':>8}{'error':>7}")
    for name, ours in by(key, rows, ratios).items():
        theirs = by(key, rows, roofline)[name]
        print(f"{', '.join(name):<62.62}{len(ours):>5}{median(ours):>7.2f}{error(ours):>7.1%}", end="")
        print(f"   {median(theirs):>8.2f}{error(theirs):>7.1%}")


def print_operators(rows: list[Row], ratios: list[float], roofline: list[float]) -> None:
    print_table(lambda row: (row.set, row.gpu, row.family, row.dtype, row.used), rows, ratios, roofline)
    for used in ("fitted", "compared"):
        some = [i for i, row in enumerate(rows) if row.used == used]
        print_summary(f"rows {used}", *([values[i] for i in some] for values in (rows, ratios, roofline)))
    print_summary("all rows", rows, ratios, roofline)


def print_summary(name: str, rows: list[Row], ratios: list[float], roofline: list[float]) -> None:
    (pooled, groups), (pooled_roofline, groups_roofline) = summary(rows, ratios), summary(rows, roofline)
    print(f"{name + ': pooled error, mean of the groups':<62}{len(rows):>5}{pooled:>7.1%}{groups:>7.1%}", end="")
    print(f"   {pooled_roofline:>8.1%}{groups_roofline:>7.1%}")


def print_recurrent_layers() -> None:
    rows = measurements.recurrent_layers()
    ratios = [measurements.predicted_of_states(row) / row.seconds for row in rows]
    roofline = [_whole(row, measurements.work_of_states(row)) / row.seconds for row in rows]
    print("\nrecurrent layers, without their inputs")
    print_table(lambda row: (row.set, row.gpu, row.op, row.direction, row.dtype, row.used), rows, ratios, roofline)


def print_models() -> None:
    kinds = defaultdict(list)
    for row in published_models.models():
        kinds[row.kind].append(published_models.predicted(row) / row.seconds)
    print(f"\n{'whole models, none of them fitted to':<62}{'rows':>5}{'ratio':>7}{'error':>7}")
    for kind, ratios in kinds.items():
        print(f"{kind:<62}{len(ratios):>5}{median(ratios):>7.2f}{error(ratios):>7.1%}")


def rooflines(rows: list[Row]) -> list[float]:
    """What a roofline at 100% of the datasheet predicts, by the FLOPs and bytes of the log."""
    return [_roofline(row) for row in rows]


def _roofline(row: Row) -> float:
    measurements.predicted([row])
    return sum(_whole(row, each) for each in simgpu.log())


def _whole(row: Row, each) -> float:
    gpu, dtype = GPUS[PROFILES[row.gpu]], getattr(measurements.torch, row.dtype)
    return max(each.flops / gpu.peak(dtype), each.bytes / gpu.bandwidth)


USED = {
    "fitted": ("tab:blue", "o", "constants were fitted on"),
    "compared": ("tab:orange", "^", "only compared"),
    "sent in": ("tab:green", "s", "sent in by learners"),
}


def draw(rows: list[Row], predicted: list[float], figure_path: Path = FIGURE) -> None:
    """Predicted over measured, every row a point."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 6.4), dpi=110, layout="constrained")
    for used, (colour, marker, says) in USED.items():
        points = [(row.seconds, seconds) for row, seconds in zip(rows, predicted, strict=True) if row.used == used]
        if not points:
            continue
        axes.scatter(*zip(*points, strict=True), s=14, alpha=0.45, c=colour, marker=marker, linewidths=0,
                     label=f"{says} ({len(points)})")  # fmt: skip
    ends = [min(row.seconds for row in rows) / 2, max(row.seconds for row in rows) * 2]
    axes.plot(ends, ends, color="black", linewidth=1, label="equal")
    for times in (0.5, 2):
        axes.plot(ends, [times * end for end in ends], color="grey", linewidth=0.8, linestyle="--")
    axes.plot([], [], color="grey", linewidth=0.8, linestyle="--", label="half, twice")
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
    axes.set_xlabel("measured on a real GPU (seconds)", fontsize=14)
    axes.set_ylabel("predicted by simgpu (seconds)", fontsize=14)
    more = len({row.gpu for row in rows if row.used == "sent in"})
    also = f", and {more} GPU{'s' if more > 1 else ''} sent in" if more else ""
    axes.set_title(f"{len(rows):,} operators on T4, P100, V100 and A100{also}", fontsize=15)
    axes.tick_params(labelsize=12)
    axes.legend(fontsize=12, loc="upper left")
    figure.savefig(figure_path)
    pyplot.close(figure)


def main() -> None:
    begin = time.perf_counter()
    rows = measurements.operators()
    for path in sys.argv[1:]:
        rows += measurements.sent_in(Path(path))
    predicted = measurements.predicted(rows)
    took = time.perf_counter() - begin
    ratios = [seconds / row.seconds for row, seconds in zip(rows, predicted, strict=True)]
    roofline = [seconds / row.seconds for row, seconds in zip(rows, rooflines(rows), strict=True)]
    print_operators(rows, ratios, roofline)
    draw(rows, predicted)
    print_recurrent_layers()
    print_splits(rows)
    print_models()
    print(f"in {time.perf_counter() - begin:.0f} s here, of which {took:.0f} s for the operators")


if __name__ == "__main__":
    main()
