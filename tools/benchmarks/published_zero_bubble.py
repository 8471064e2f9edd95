"""What the zero bubble paper prints of its runs on A100 (Qi et al., 2024, arXiv 2401.10241): tables 3, 4, 5 and 9.

Profiled milliseconds of a stage and of a message between two; bubble rates that the paper has calculated from these;
and samples that a GPU has been measured to do in a second. In the paper B is the half for the inputs, our I.
"""

from __future__ import annotations

from typing import NamedTuple

from utils.schedules import (
    Costs,
    Played,
    Schedule,
    interleaved_1f1b,
    one_f_one_b,
    play,
    zero_bubble_h1,
)


class Run(NamedTuple):
    """One row. `rates` of 1F1B, interleaved 1F1B and ZB-H1; `samples` of the first two."""

    model: str
    layers: int
    ranks: int
    rows: int  # of a micro-batch
    micro_batches: int
    forward: float
    inputs: float
    weights: float
    message: float
    rates: tuple[float, float, float]
    samples: tuple[float, float]

    def schedules(self) -> list[Schedule]:
        """In the interleaved one each layer is a chunk; the first and the last stage have one layer less."""
        size = self.ranks, self.micro_batches
        chunks = (self.layers + 2) // self.ranks
        return [one_f_one_b(*size), interleaved_1f1b(*size, chunks), zero_bubble_h1(*size)]

    def played(self, schedule: Schedule) -> Played:
        """With the paper's times. All chunks of a rank together take what one stage takes."""
        share = schedule.ranks / schedule.stages * 1e-3
        costs = Costs(self.forward * share, inputs=self.inputs * share, weights=self.weights * share)
        return play(schedule, costs, Wire(self.message * 1e-3))

    def samples_a_second(self, schedule: Schedule) -> float:
        """Of one GPU, where nothing but the schedule takes time: no optimizer, no sum of gradients."""
        played = self.played(schedule)
        seconds = played.work / (1 - played.bubble_rate)
        return self.rows * self.micro_batches / self.ranks / seconds


class Wire(NamedTuple):
    """A link on which every message takes as long."""

    latency: float
    bandwidth: float = float("inf")


RUNS = (
    Run("1.5B", 22, 8, 6, 24, 18.522, 18.086, 9.337, 0.601, (0.2431, 0.1055, 0.1585), (11.8, 13.1)),
    Run("1.5B", 22, 8, 6, 32, 18.513, 18.086, 9.331, 0.626, (0.1985, 0.0818, 0.1242), (12.5, 13.4)),
    Run("1.5B", 22, 8, 6, 64, 18.546, 18.097, 9.321, 0.762, (0.1240, 0.0443, 0.0674), (13.6, 13.9)),
    Run("6.2B", 30, 8, 3, 24, 29.718, 29.444, 19.927, 0.527, (0.2347, 0.0808, 0.1323), (3.50, 4.01)),
    Run("6.2B", 30, 8, 3, 32, 29.802, 29.428, 19.530, 0.577, (0.1898, 0.0628, 0.1045), (3.70, 4.08)),
    Run("6.2B", 30, 8, 3, 64, 29.935, 29.621, 19.388, 0.535, (0.1091, 0.0320, 0.0554), (4.03, 4.19)),
    Run("14.6B", 46, 16, 1, 48, 11.347, 11.248, 8.132, 0.377, (0.2552, 0.1104, 0.1397), (1.40, 1.54)),
    Run("14.6B", 46, 16, 1, 64, 11.307, 11.254, 8.101, 0.379, (0.2082, 0.0852, 0.1088), (1.49, 1.59)),
    Run("14.6B", 46, 16, 1, 128, 11.325, 11.308, 8.109, 0.378, (0.1251, 0.0445, 0.0576), (1.64, 1.66)),
    Run("28.3B", 62, 32, 1, 96, 10.419, 10.207, 7.715, 0.408, (0.2646, 0.1493, 0.1421), (0.76, 0.82)),
    Run("28.3B", 62, 32, 1, 128, 10.408, 10.204, 7.703, 0.408, (0.2168, 0.1164, 0.1106), (0.80, 0.85)),
    Run("28.3B", 62, 32, 1, 256, 10.402, 10.248, 7.698, 0.460, (0.1352, 0.0624, 0.0594), (0.88, 0.90)),
)
