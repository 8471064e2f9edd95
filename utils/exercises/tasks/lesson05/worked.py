def together(busy0, busy1):
    """Of the time in which at least one of two devices is busy, the share in which both are."""
    both = 0
    for start0, end0 in busy0:
        for start1, end1 in busy1:
            both += max(0, min(end0, end1) - max(start0, start1))  # below zero: they do not meet
    first = sum(end - start for start, end in busy0)
    second = sum(end - start for start, end in busy1)
    at_least_one = first + second - both  # the sum has what they share twice
    return both / at_least_one if at_least_one else 0
