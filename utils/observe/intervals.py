"""Sets of times, as sorted lists of (start, end) that do not touch each other. Units are the caller's."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import itemgetter

Intervals = list[tuple[float, float]]


def union(intervals: Iterable[tuple[float, float]]) -> Intervals:
    """All the times that are in any of them."""
    merged: Intervals = []
    for start, end in sorted(intervals):
        if end <= start:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def common(first: Intervals, second: Intervals) -> Intervals:
    """The times that are in both."""
    found: Intervals = []
    i = j = 0
    while i < len(first) and j < len(second):
        start, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if start < end:
            found.append((start, end))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return found


def without(first: Intervals, second: Intervals) -> Intervals:
    """The times that are in the first and not in the second."""
    left: Intervals = []
    for start, end in first:
        for taken_start, taken_end in _from(second, start):
            if taken_start >= end:
                break
            if taken_start > start:
                left.append((start, taken_start))
            start = taken_end
        if start < end:
            left.append((start, end))
    return left


def _from(times: Intervals, moment: float) -> Iterator[tuple[float, float]]:
    """Those that end after a moment. Found by halving: going through all of them each time is what takes long."""
    return map(times.__getitem__, range(bisect_right(times, moment, key=itemgetter(1)), len(times)))


def length(intervals: Intervals) -> float:
    """How long they are together."""
    return sum(end - start for start, end in intervals)
