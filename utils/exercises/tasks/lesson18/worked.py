"""Lesson 18: working versions of its tasks."""

from collections import Counter

import torch


def straggler(starts):
    waited = Counter()
    for ranks in starts:
        last = max(ranks)
        waited[ranks.index(last)] += sum(last - start for start in ranks)
    return waited.most_common(1)[0]


def unequal(gradients, sharded):
    first, *others = gradients
    return [
        name for name in first if name not in sharded and any(not torch.equal(first[name], o[name]) for o in others)
    ]


def first_mismatch(dumps):
    calls = [
        {e["collective_seq_id"]: (e["profiling_name"], e["input_sizes"]) for e in dump["entries"]} for dump in dumps
    ]
    all_have_it = max(min(mine) for mine in calls)  # an older number can be lost on some rank
    for number in sorted(number for number in set().union(*calls) if number >= all_have_it):
        called = [mine.get(number) for mine in calls]
        usual = max(called, key=called.count)
        odd = [rank for rank, call in enumerate(called) if call != usual]
        if odd:
            return number, odd
    return None
