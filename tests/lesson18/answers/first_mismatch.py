# %% wrong: last_completed
# Looks for where ranks stopped.

def first_mismatch(dumps):
    ends = [dump["entries"][-1]["collective_seq_id"] for dump in dumps]
    first = min(ends)
    return (first, [rank for rank, end in enumerate(ends) if end == first]) if len(set(ends)) > 1 else None


# %% wrong: names_only
# Ignores sizes.

def first_mismatch(dumps):
    calls = [{e["collective_seq_id"]: e["profiling_name"] for e in dump["entries"]} for dump in dumps]
    for number in sorted(set().union(*calls)):
        called = [mine.get(number) for mine in calls]
        usual = max(called, key=called.count)
        odd = [rank for rank, call in enumerate(called) if call != usual]
        if odd:
            return number, odd


# %% wrong: against_rank_0
# Takes rank 0's calls for the right ones.

def first_mismatch(dumps):
    calls = [{e["collective_seq_id"]: (e["profiling_name"], e["input_sizes"]) for e in d["entries"]} for d in dumps]
    for number in sorted(set().union(*calls)):
        odd = [rank for rank, mine in enumerate(calls) if mine.get(number) != calls[0].get(number)]
        if odd:
            return number, odd


# %% wrong: shortest_list
# Stops where the shortest list ends.

def first_mismatch(dumps):
    for entries in zip(*(dump["entries"] for dump in dumps)):
        called = [(e["profiling_name"], e["input_sizes"]) for e in entries]
        usual = max(called, key=called.count)
        odd = [rank for rank, call in enumerate(called) if call != usual]
        if odd:
            return entries[0]["collective_seq_id"], odd


# %% wrong: place_in_the_list
# Returns the place in the list instead of the number.

def first_mismatch(dumps):
    calls = [[(e["profiling_name"], e["input_sizes"]) for e in d["entries"]] for d in dumps]
    for place in range(max(map(len, calls))):
        called = [mine[place] if place < len(mine) else None for mine in calls]
        usual = max(called, key=called.count)
        odd = [rank for rank, call in enumerate(called) if call != usual]
        if odd:
            return place, odd


# %% wrong: from_the_smallest_number
# Takes calls that a recorder has lost for calls that its rank has not made.

def first_mismatch(dumps):
    calls = [{e["collective_seq_id"]: (e["profiling_name"], e["input_sizes"]) for e in d["entries"]} for d in dumps]
    for number in sorted(set().union(*calls)):
        called = [mine.get(number) for mine in calls]
        usual = max(called, key=called.count)
        odd = [rank for rank, call in enumerate(called) if call != usual]
        if odd:
            return number, odd


# %% right: counted
# With a Counter and text.
from collections import Counter

def first_mismatch(dumps):
    calls = [{e["collective_seq_id"]: str((e["profiling_name"], e["input_sizes"])) for e in d["entries"]} for d in dumps]
    numbers = sorted({number for mine in calls for number in mine})
    begin = max(dump["entries"][0]["collective_seq_id"] for dump in dumps)
    for number in numbers[numbers.index(begin) :]:
        usual = Counter(mine.get(number) for mine in calls).most_common(1)[0][0]
        odd = [rank for rank in range(len(calls)) if calls[rank].get(number) != usual]
        if odd:
            return number, odd


# %% right: a_grid
# Fills a table of numbers by ranks first.

def first_mismatch(dumps):
    table = {}
    for rank, dump in enumerate(dumps):
        for e in dump["entries"]:
            table.setdefault(e["collective_seq_id"], [None] * len(dumps))[rank] = [e["profiling_name"], e["input_sizes"]]
    begin = max(min(n for n in table if table[n][rank]) for rank in range(len(dumps)))
    for number in sorted(n for n in table if n >= begin):
        usual = max(table[number], key=table[number].count)
        odd = [rank for rank, call in enumerate(table[number]) if call != usual]
        if odd:
            return number, odd
    return None
