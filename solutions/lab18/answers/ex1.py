"""Answers to exercise 1 that the grader is tested with. tests/support/answers.py says how to read them."""


# %% wrong: blames_the_rank_that_waits
# Takes the rank whose all-reduces take longest for the slow one. It waits in them.

def slow_rank(traces):
    spent, ends = [], []
    for trace in traces:
        events = [e for e in trace["traceEvents"] if e["cat"] == "kernel"]
        spent.append(sum(e["dur"] for e in events if "Process Group Ranks" in e["args"]))
        ends += [(e["ts"], e["ts"] + e["dur"]) for e in events]
    total = max(end for _, end in ends) - min(start for start, _ in ends)
    rank = spent.index(max(spent))
    return {"ranks": [rank], "cause": "gpu", "share": (max(spent) - min(spent)) / total}


# %% wrong: longest_collective_is_the_cause
# Takes the group with the longest all-reduce for the cause: the network must be slow.

import json


def slow_rank(traces):
    events = [e for trace in traces for e in trace["traceEvents"] if e["cat"] == "kernel"]
    total = max(e["ts"] + e["dur"] for e in events) - min(e["ts"] for e in events)
    longest = max((e for e in events if "Process Group Ranks" in e["args"]), key=lambda e: e["dur"])
    ranks = json.loads(longest["args"]["Process Group Ranks"])
    return {"ranks": sorted(ranks), "cause": "network", "share": longest["dur"] / total}


# %% wrong: last_to_arrive_has_a_slow_gpu
# Finds the rank for which the others wait, and blames its GPU without looking at its kernels.

def slow_rank(traces):
    spent, ends = [], []
    for trace in traces:
        events = [e for e in trace["traceEvents"] if e["cat"] == "kernel"]
        spent.append(sum(e["dur"] for e in events if "Process Group Ranks" in e["args"]))
        ends += [(e["ts"], e["ts"] + e["dur"]) for e in events]
    total = max(end for _, end in ends) - min(start for start, _ in ends)
    least = min(spent)
    return {"ranks": [spent.index(least)], "cause": "gpu", "share": (sorted(spent)[len(spent) // 2] - least) / total}


# %% wrong: network_for_each_slow_rank
# Sees that ranks wait, and blames the network of the data-parallel group of the rank they wait for.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    if cause == "gpu":
        group = next(group for _, _, group in calls if ranks[0] in json.loads(group))
        return {"ranks": json.loads(group), "cause": "network", "share": cost[cause, ranks] / total}
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / total}


# %% wrong: collectives_are_kernels_too
# Compares all kernels of a rank, those of the all-reduces among them.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            kernels[e["name"], number][rank] = e["dur"]
            if group is not None:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / total}


# %% wrong: busiest_rank
# Compares the time in which each GPU runs anything. A GPU that waits in an all-reduce runs it.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] = -idle[rank] + max(idle)
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / total}


# %% wrong: longest_single_kernel
# Takes the rank with the kernel that is furthest from the usual time, though it was so once.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] = max(cost["gpu", (rank,)], took[rank] - median(took.values()))
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / total}


# %% wrong: longest_kernel_decides
# Takes the rank with the kernel that is furthest from the usual time, and then adds up what this rank loses.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    if cause == "gpu":
        furthest = max((took[rank] - median(took.values()), rank) for took in kernels.values() for rank in took)
        ranks = (furthest[1],)
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / total}


# %% wrong: first_cause_that_is_seen
# Asks for one cause after the other, and takes the first that costs anything to speak of.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    for cause in ("gpu", "host", "network"):
        ranks = max((one for name, one in cost if name == cause), key=lambda one: cost[cause, one])
        if cost[cause, ranks] > 0.01 * total:
            break
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / total}


# %% wrong: nodes_of_four
# Has nodes of four ranks, and two of them, built in.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", (json.loads(group)[0] % 4, json.loads(group)[0] % 4 + 4)] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / total}


# %% wrong: long_gaps_left_out
# Counts gaps of a GPU up to a millisecond, and takes a longer one for the time between two steps.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        gaps = [b["ts"] - a["ts"] - a["dur"] for a, b in zip(events, events[1:])]
        idle.append(sum(gap for gap in gaps if gap < 1000))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / total}


# %% wrong: first_step_only
# Looks at the first of each kernel and each all-reduce, as if all steps were like the first.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if number > 1:
                continue
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / total}


# %% wrong: first_and_last_kernel_only
# Compares one kernel of each name, the last one, and multiplies nothing.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"]][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / total}


# %% wrong: share_of_a_run_without_it
# Divides what is lost by the time that the run would take without it.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / (total - cost[cause, ranks])}


# %% wrong: waiting_of_all_ranks
# Adds up what each of the other ranks waits. They wait at the same time.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] * (len(traces) - len(ranks)) / total}


# %% wrong: share_of_all_gpu_time
# Divides what one rank loses by the time of all GPUs, as if the others went on.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / total / len(traces)}


# %% wrong: in_percent
# Gives the share in percent.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    return {"ranks": list(ranks), "cause": cause, "share": 100 * cost[cause, ranks] / total}


# %% wrong: microseconds_lost
# Gives the microseconds that are lost, not their share.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks]}


# %% wrong: share_of_one_step
# Divides what all steps lose by the time of one step.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    total /= sum("ProfilerStep" in e["name"] for e in traces[0]["traceEvents"])
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / total}


# %% wrong: share_of_kernel_time
# Divides what is lost by the time of the rank's own kernels.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / sum(
        took[ranks[0]] for took in kernels.values()
    )}


# %% wrong: compares_with_a_mean
# Compares with the mean of all ranks and groups, which has the slow one in it.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - (sum(took.values()) / len(took))
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - (sum(took.values()) / len(took))
    cause, ranks = max(cost, key=cost.get)
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / total}


# %% wrong: events_not_sorted
# Numbers the kernels in the order of the file, which is not that of time.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = [e for e in trace["traceEvents"] if e["cat"] == "kernel"]
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / total}


# %% wrong: one_rank_of_the_group
# Names one rank of the group whose link is slow: the one that arrives last.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    if cause == "network":
        spans = next(spans for (_, _, group), spans in calls.items() if json.loads(group) == list(ranks))
        return {"ranks": [max(spans, key=spans.get)], "cause": cause, "share": cost[cause, ranks] / total}
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / total}


# %% wrong: other_groups_are_the_measure
# Compares the all-reduces of all groups, of a node and between nodes, as if they were of one kind.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[group] = passing.get(group, {}) or {}
        passing[group][number] = max(end for _, end in spans.values()) - last
    usual = median(time for took in passing.values() for time in took.values())
    for group, took in passing.items():
        cost["network", tuple(json.loads(group))] = sum(took.values()) - usual * len(took)
    cause, ranks = max(cost, key=cost.get)
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / total}


# %% wrong: host_waits_long_in_the_queue
# Takes a long time between a launch and the kernel's start for a slow host. Where the host is ahead, it is long.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank, trace in enumerate(traces):
        launched = {e["args"]["correlation"]: e["ts"] for e in trace["traceEvents"] if e["cat"] == "cuda_runtime"}
        events = [e for e in trace["traceEvents"] if e["cat"] == "kernel"]
        cost["host", (rank,)] = sum(e["ts"] - launched[e["args"]["correlation"]] for e in events) / len(events)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / total}


# %% wrong: host_left_out
# Knows slow GPUs and slow links. A host that launches late is none of the causes it looks for.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / total}


# %% wrong: idle_gpu_has_a_slow_link
# Sees that a GPU is idle, and says that it waits for the network.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    if cause == "host":
        return {"ranks": list(ranks), "cause": "network", "share": cost[cause, ranks] / total}
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / total}


# %% wrong: returns_three_values
# Returns a tuple of the three values.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    return list(ranks), cause, cost[cause, ranks] / total


# %% wrong: sorts_in_place
# Sorts the events in the traces that it was given.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        trace["traceEvents"].sort(key=lambda e: e["ts"])
        events = [e for e in trace["traceEvents"] if e["cat"] == "kernel"]
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / total}


# %% wrong: network_from_the_first_arrival
# Counts a collective from its first rank's arrival, so that waiting is the network's.

import json
from statistics import median


def slow_rank(traces):
    kernels = []
    for trace in traces:
        own = [e for e in trace["traceEvents"] if e.get("cat") == "kernel"]
        kernels.append(sorted(own, key=lambda e: e["ts"]))
    first = min(own[0]["ts"] for own in kernels)
    last = max(e["ts"] + e["dur"] for own in kernels for e in own)
    total = last - first
    ranks, count = len(traces), len(kernels[0])
    gpu, host, network = [0.0] * ranks, [0.0] * ranks, {}
    for i in range(count):
        here = [own[i] for own in kernels]
        gaps = [own[i]["ts"] - (own[i - 1]["ts"] + own[i - 1]["dur"] if i else first) for own in kernels]
        middle = median(gaps)
        for rank in range(ranks):
            host[rank] += gaps[rank] - middle
        if "Process Group Ranks" not in here[0]["args"]:
            middle = median(e["dur"] for e in here)
            for rank in range(ranks):
                gpu[rank] += here[rank]["dur"] - middle
            continue
        groups = {tuple(json.loads(e["args"]["Process Group Ranks"])) for e in here}
        if (0, 1) in {group[:2] for group in groups}:
            continue
        took = {}
        for group in groups:
            arrived = min(here[rank]["ts"] for rank in group)
            ended = max(here[rank]["ts"] + here[rank]["dur"] for rank in group)
            took[group] = ended - arrived
        middle = median(took.values())
        for group in groups:
            network[group] = network.get(group, 0.0) + took[group] - middle
    candidates = [(cost, "gpu", [rank]) for rank, cost in enumerate(gpu)]
    candidates += [(cost, "host", [rank]) for rank, cost in enumerate(host)]
    candidates += [(cost, "network", sorted(group)) for group, cost in network.items()]
    cost, cause, which = max(candidates)
    return {"cause": cause, "ranks": which, "share": cost / total}


# %% wrong: only_what_is_usual
# Takes the median of what a rank loses, and so overlooks a single loss that costs most.

import json
from statistics import median


def slow_rank(traces):
    kernels = []
    for trace in traces:
        own = [e for e in trace["traceEvents"] if e.get("cat") == "kernel"]
        kernels.append(sorted(own, key=lambda e: e["ts"]))
    first = min(own[0]["ts"] for own in kernels)
    last = max(e["ts"] + e["dur"] for own in kernels for e in own)
    total = last - first
    ranks, count = len(traces), len(kernels[0])
    many = [[] for _ in range(ranks)]
    gpu, host, network = [0.0] * ranks, [0.0] * ranks, {}
    for i in range(count):
        here = [own[i] for own in kernels]
        gaps = [own[i]["ts"] - (own[i - 1]["ts"] + own[i - 1]["dur"] if i else first) for own in kernels]
        middle = median(gaps)
        for rank in range(ranks):
            host[rank] += gaps[rank] - middle
        if "Process Group Ranks" not in here[0]["args"]:
            middle = median(e["dur"] for e in here)
            for rank in range(ranks):
                many[rank].append(here[rank]["dur"] - middle)
            continue
        groups = {tuple(json.loads(e["args"]["Process Group Ranks"])) for e in here}
        if (0, 1) in {group[:2] for group in groups}:
            continue
        took = {}
        for group in groups:
            arrived = max(here[rank]["ts"] for rank in group)
            ended = max(here[rank]["ts"] + here[rank]["dur"] for rank in group)
            took[group] = ended - arrived
        middle = median(took.values())
        for group in groups:
            network[group] = network.get(group, 0.0) + took[group] - middle
    gpu = [median(each) * len(each) for each in many]
    candidates = [(cost, "gpu", [rank]) for rank, cost in enumerate(gpu)]
    candidates += [(cost, "host", [rank]) for rank, cost in enumerate(host)]
    candidates += [(cost, "network", sorted(group)) for group, cost in network.items()]
    cost, cause, which = max(candidates)
    return {"cause": cause, "ranks": which, "share": cost / total}


# %% wrong: network_by_whole_durations
# Takes whole all-reduces for the network's time, with the waiting that is in them.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        passing[size, number][group] = sum(end - start for start, end in spans.values()) / len(spans)
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / total}


# %% wrong: all_reduces_of_the_ranks_added_up
# Adds up all all-reduces of each rank. The others wait for a slow group in their next one.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    if cause == "network":
        spent = defaultdict(float)
        for spans in calls.values():
            for rank, (start, end) in spans.items():
                spent[rank] += end - start
        cost[cause, ranks] = median(spent[rank] for rank in ranks) - median(spent.values())
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / total}


# %% wrong: compares_with_the_same_place
# Compares a rank with those of its data-parallel group only. Of two, the median is half way between them.

import json
from statistics import median


def slow_rank(traces):
    runs = []
    for trace in traces:
        kernels = [e for e in trace["traceEvents"] if e["cat"] == "kernel"]
        runs.append(sorted(kernels, key=lambda e: e["ts"]))
    ranks = range(len(runs))
    begin = min(run[0]["ts"] for run in runs)
    end = max(k["ts"] + k["dur"] for run in runs for k in run)
    span = end - begin
    gpu = [0.0] * len(runs)
    host = [0.0] * len(runs)
    network = {}
    for i in range(len(runs[0])):
        row = [run[i] for run in runs]
        if "Process Group Ranks" not in row[0]["args"]:
            data = [k for k in runs[0] if k["args"].get("Process Group Description") == "data"][0]
            n = len(runs) // len(json.loads(data["args"]["Process Group Ranks"]))
            for rank in ranks:
                gpu[rank] += row[rank]["dur"] - median(k["dur"] for k in row[rank % n :: n])
        elif row[0]["args"]["Process Group Description"] == "data":
            took = {}
            for rank in ranks:
                members = tuple(json.loads(row[rank]["args"]["Process Group Ranks"]))
                took[members] = min(row[m]["dur"] for m in members)
            usual = median(took.values())
            for members, each in took.items():
                network[members] = network.get(members, 0.0) + each - usual
        if i:
            idle = [row[r]["ts"] - runs[r][i - 1]["ts"] - runs[r][i - 1]["dur"] for r in ranks]
            usual = median(idle)
            for rank in ranks:
                host[rank] += max(0.0, idle[rank] - usual)
    costs = [(cost, "gpu", [rank]) for rank, cost in enumerate(gpu)]
    costs += [(cost, "host", [rank]) for rank, cost in enumerate(host)]
    costs += [(cost, "network", sorted(members)) for members, cost in network.items()]
    cost, cause, blamed = max(costs)
    return {"cause": cause, "ranks": blamed, "share": cost / span}


# %% right: by_a_table_of_costs
# A table of costs by cause and ranks, with statistics.median.

import json
from collections import Counter, defaultdict
from statistics import median


def slow_rank(traces):
    kernels, calls, idle, ends = defaultdict(dict), defaultdict(dict), [], []
    for rank, trace in enumerate(traces):
        events = sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])
        seen = Counter()
        ends += [(events[0]["ts"], events[-1]["ts"] + events[-1]["dur"])]
        idle.append(ends[-1][1] - ends[-1][0] - sum(e["dur"] for e in events))
        for e in events:
            group = e["args"].get("Process Group Ranks")
            seen[e["name"], group] += 1
            number = seen[e["name"], group]
            if group is None:
                kernels[e["name"], number][rank] = e["dur"]
            else:
                calls[e["args"]["In msg nelems"], number, group][rank] = e["ts"], e["ts"] + e["dur"]
    total = max(end for _, end in ends) - min(start for start, _ in ends)

    cost = defaultdict(float)
    for took in kernels.values():
        for rank in took:
            cost["gpu", (rank,)] += took[rank] - median(took.values())
    for rank in range(len(traces)):
        cost["host", (rank,)] = idle[rank] - median(idle)
    passing = defaultdict(dict)
    for (size, number, group), spans in calls.items():
        last = max(start for start, _ in spans.values())
        passing[size, number][group] = max(end for _, end in spans.values()) - last
    for took in passing.values():
        for group in took:
            cost["network", tuple(json.loads(group))] += took[group] - median(took.values())
    cause, ranks = max(cost, key=cost.get)
    return {"ranks": list(ranks), "cause": cause, "share": cost[cause, ranks] / total}


# %% right: with_numpy
# Arrays of ranks and kernels: the order of kernels is the same on each rank.

import json

import numpy as np


def slow_rank(traces):
    ordered = [sorted((e for e in t["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"]) for t in traces]
    start = np.array([[e["ts"] for e in events] for events in ordered])
    took = np.array([[e["dur"] for e in events] for events in ordered])
    end = start + took
    collective = np.array(["Process Group Ranks" in e["args"] for e in ordered[0]])
    groups = [[e["args"].get("Process Group Ranks", "[]") for e in events] for events in ordered]

    own = took[:, ~collective]
    gpu = (own - np.median(own, axis=0)).sum(1)
    gaps = start[:, 1:] - end[:, :-1]
    host = (gaps - np.median(gaps, axis=0)).sum(1)
    network = {}
    for column in np.flatnonzero(collective):
        passing = {}
        for group in {rows[column] for rows in groups}:
            ranks = json.loads(group)
            passing[group] = end[ranks, column].max() - start[ranks, column].max()
        for group, time in passing.items():
            network[group] = network.get(group, 0) + time - np.median([*passing.values()])
    group = max(network, key=network.get)
    found = [
        (gpu.max(), "gpu", [int(gpu.argmax())]),
        (host.max(), "host", [int(host.argmax())]),
        (network[group], "network", sorted(json.loads(group))),
    ]
    cost, cause, ranks = max(found, key=lambda one: one[0])
    return {"ranks": ranks, "cause": cause, "share": float(cost / (end.max() - start.min()))}


# %% right: who_is_waited_for
# First the network: does any group take longer than others from the last arrival on? If none does, the rank for which
# the others wait, and whether its kernels or the gaps between them are longer than usual.

import re
from statistics import median_low


def gpu_events(trace):
    return sorted((e for e in trace["traceEvents"] if e["cat"] == "kernel"), key=lambda e: e["ts"])


def members(event):
    return tuple(map(int, re.findall(r"\d+", event["args"]["Process Group Ranks"])))


def slow_rank(traces):
    ranks = range(len(traces))
    events = [gpu_events(trace) for trace in traces]
    begin = min(of_rank[0]["ts"] for of_rank in events)
    total = max(of_rank[-1]["ts"] + of_rank[-1]["dur"] for of_rank in events) - begin

    lost = {}
    for place, event in enumerate(events[0]):
        if "Process Group Ranks" not in event["args"]:
            continue
        took = {}
        for group in {members(events[rank][place]) for rank in ranks}:
            last = max(events[rank][place]["ts"] for rank in group)
            took[group] = events[group[0]][place]["ts"] + events[group[0]][place]["dur"] - last
        for group in took:
            lost[group] = lost.get(group, 0) + took[group] - median_low(took.values())
    group = max(lost, key=lost.get)
    if lost[group] / total > 0.05:
        return {"ranks": list(group), "cause": "network", "share": lost[group] / total}

    in_calls = [sum(e["dur"] for e in of_rank if "Process Group Ranks" in e["args"]) for of_rank in events]
    rank = min(ranks, key=lambda one: in_calls[one])
    computing = [sum(e["dur"] for e in of_rank if "Process Group Ranks" not in e["args"]) for of_rank in events]
    kernels = computing[rank] - median_low(computing)
    gaps = sum(in_calls) / len(in_calls) - in_calls[rank] - kernels
    if kernels > gaps:
        return {"ranks": [rank], "cause": "gpu", "share": kernels / total}
    idle = [of_rank[-1]["ts"] + of_rank[-1]["dur"] - begin - sum(e["dur"] for e in of_rank) for of_rank in events]
    return {"ranks": [rank], "cause": "host", "share": (idle[rank] - median_low(idle)) / total}


# %% right: gaps_by_launches
# A gap counts as the host's where the kernel starts right after its launch.

import ast


def middle(values):
    values = sorted(values)
    return values[len(values) // 2]


def slow_rank(traces):
    durations, arrivals, finished, late = {}, {}, {}, [0.0] * len(traces)
    first, last = float("inf"), 0.0
    for rank, trace in enumerate(traces):
        launches, kernels = {}, []
        for event in trace["traceEvents"]:
            if event["cat"] == "cuda_runtime":
                launches[event["args"]["correlation"]] = event["ts"]
            elif event["cat"] == "kernel":
                kernels.append((event["ts"], event["ts"] + event["dur"], event["name"], event["args"]))
        kernels.sort(key=lambda kernel: kernel[0])
        free, count = kernels[0][0], {}
        for start, end, name, args in kernels:
            if start - launches[args["correlation"]] < 20:
                late[rank] += max(0.0, start - free)
            free = end
            group = args.get("Process Group Ranks")
            count[name, group] = count.get((name, group), 0) + 1
            if group:
                key = args["In msg nelems"], count[name, group]
                arrivals.setdefault(key, {}).setdefault(group, []).append(start)
                finished.setdefault(key, {})[group] = end
            else:
                durations.setdefault((name, count[name, group]), []).append((rank, end - start))
        first, last = min(first, kernels[0][0]), max(last, free)

    found = []
    for rank in range(len(traces)):
        more = [d for each in durations.values() for r, d in each if r == rank]
        usual = [middle(d for _, d in each) for each in durations.values()]
        found.append((sum(more) - sum(usual), "gpu", [rank]))
        found.append((late[rank] - middle(late), "host", [rank]))
    slow = {}
    for key, by_group in arrivals.items():
        passing = {group: finished[key][group] - max(times) for group, times in by_group.items()}
        for group, time in passing.items():
            slow[group] = slow.get(group, 0) + time - middle(passing.values())
    found += [(time, "network", ast.literal_eval(group)) for group, time in slow.items()]
    time, cause, ranks = max(found, key=lambda one: one[0])
    return {"ranks": sorted(ranks), "cause": cause, "share": time / (last - first)}
