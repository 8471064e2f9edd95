"""Without a module, on a sorted copy."""


def summary(seconds):
    ordered = sorted(seconds)
    count = len(ordered)
    mean = sum(ordered) / count
    median = (ordered[count // 2] + ordered[(count - 1) // 2]) / 2
    spread = 0
    if count > 1:
        spread = (sum((value - mean) ** 2 for value in ordered) / (count - 1)) ** 0.5
    return {"median": median, "mean": mean, "spread": spread}
