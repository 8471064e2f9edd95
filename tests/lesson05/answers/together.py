# %% wrong: of_the_span
# Divides by the whole span, the time in which nobody is busy included.

def together(busy0, busy1):
    both = sum(max(0, min(e0, e1) - max(s0, s1)) for s0, e0 in busy0 for s1, e1 in busy1)
    everything = [*busy0, *busy1]
    if not everything:
        return 0
    span = max(end for _, end in everything) - min(start for start, _ in everything)
    return both / span


# %% wrong: of_the_sum
# Divides by the two busy times added up, so that what they share counts twice.

def together(busy0, busy1):
    both = 0
    for start0, end0 in busy0:
        for start1, end1 in busy1:
            both += max(0, min(end0, end1) - max(start0, start1))
    total = sum(e - s for s, e in busy0) + sum(e - s for s, e in busy1)
    return both / total if total else 0


# %% wrong: pairs_by_number
# Compares the first pair with the first, the second with the second, and no others.

def together(busy0, busy1):
    both = 0
    for (start0, end0), (start1, end1) in zip(busy0, busy1):
        both += max(0, min(end0, end1) - max(start0, start1))
    either = sum(e - s for s, e in busy0) + sum(e - s for s, e in busy1) - both
    return both / either if either else 0


# %% wrong: negative_overlaps
# Forgets that two pairs that never meet give a negative length.

def together(busy0, busy1):
    both = 0
    for start0, end0 in busy0:
        for start1, end1 in busy1:
            both += min(end0, end1) - max(start0, start1)
    either = sum(e - s for s, e in busy0) + sum(e - s for s, e in busy1) - both
    return both / either if either else 0


# %% wrong: by_the_less_busy
# Divides by the busy time of the less busy device, so that a short piece inside a long one counts as always.

def together(busy0, busy1):
    both = sum(max(0, min(e0, e1) - max(s0, s1)) for s0, e0 in busy0 for s1, e1 in busy1)
    shortest = min(sum(e - s for s, e in busy0), sum(e - s for s, e in busy1))
    return both / shortest if shortest else 0


# %% wrong: nobody_is_busy
# Divides by zero where nobody is busy.

def together(busy0, busy1):
    both = sum(max(0, min(e0, e1) - max(s0, s1)) for s0, e0 in busy0 for s1, e1 in busy1)
    return both / (sum(e - s for s, e in busy0) + sum(e - s for s, e in busy1) - both)


# %% right: two_fingers
# Goes through both lists with a finger in each.

def together(busy0, busy1):
    both, i, j = 0.0, 0, 0
    while i < len(busy0) and j < len(busy1):
        both += max(0.0, min(busy0[i][1], busy1[j][1]) - max(busy0[i][0], busy1[j][0]))
        if busy0[i][1] < busy1[j][1]:
            i += 1
        else:
            j += 1
    either = sum(end - start for start, end in busy0 + busy1) - both
    return both / either if either > 0 else 0.0


# %% right: edges
# Cuts time at every start and end, and asks for each piece who is busy.

def together(busy0, busy1):
    edges = sorted({t for pair in busy0 + busy1 for t in pair})
    one = both = 0
    for left, right in zip(edges, edges[1:]):
        busy = sum(any(s <= left and right <= e for s, e in busy_times) for busy_times in (busy0, busy1))
        one += (right - left) * (busy > 0)
        both += (right - left) * (busy == 2)
    return both / one if one else 0


# %% right: intervals_of_the_course
# Uses the course's own module for sets of times.

from utils.observe.intervals import common, length, union


def together(busy0, busy1):
    either = length(union(list(busy0) + list(busy1)))
    return length(common(busy0, busy1)) / either if either else 0
