"""Answers to exercise 2 that the grader is tested with. tests/support/answers.py says how to read them."""


# %% wrong: first_to_time_out
# Blames the rank that reports the time-out first. It waits for the longest time.

def why_it_hangs(dumps):
    waiting = [(entry["time_created_ns"], dump["rank"], entry) for dump in dumps for entry in dump["entries"]
               if entry["state"] == "started"]
    _, rank, entry = min(waiting, key=lambda one: one[0])
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return {"rank": rank, "cause": "absent", "line": f"{frame['filename']}:{frame['line']}"}


# %% wrong: any_rank_that_waits
# Takes a rank with a call that is not completed for the one at fault.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    for dump in dumps:
        if any(entry["state"] == "started" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: last_mismatch
# Takes the last number at which the calls differ. It is the first that counts.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: -key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: only_where_ranks_wait
# Compares only the calls in which ranks wait. Different calls can have completed together before.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        if all(entry["state"] == "completed" for entry in table[group, number].values()):
            continue
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: one_call_back_at_most
# Compares the calls in which ranks wait and the one before. The first that differs can be further back.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    hung = {key for key, entries in table.items() if any(e["state"] == "started" for e in entries.values())}
    near = hung | {(group, number - 1) for group, number in hung}
    for group, number in sorted(near & table.keys(), key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: ranks_up_to_the_highest_dump
# Takes the highest rank that left a dump for the last rank there is.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = set(range(max(dump["rank"] for dump in dumps) + 1)) - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: last_records_compared
# Compares the last record of each rank.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        table["last", 0][dump["rank"]] = dump["entries"][-1]

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: compared_by_place_in_the_dump
# Compares the first record with the first, the second with the second. Dumps begin at different calls.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for place, entry in enumerate(dump["entries"]):
            table[entry["process_group"][0], place][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: one_count_for_all_groups
# Compares calls with the same number, whatever group they are of.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table["", entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: by_record_id
# Compares calls with the same record_id: the n-th call of a rank in all its groups.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table["", entry["record_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: groups_by_description
# Puts all groups with one description together, so that a number stands for calls of several groups.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][1], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: sizes_left_out
# Compares the names and the lines of calls. Their sizes can differ, too.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], "", line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: lines_left_out
# Compares what NCCL compares, names and sizes. A call from another line can have the same.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"])


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": line_of(next(e for e in table[group, number].values() if call_of(e) == usual))}
                return {"rank": rank, "cause": "other", "line": line_of(table[group, number][rank])}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: names_left_out
# Compares sizes and nothing else.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return "", str(entry["input_sizes"]), ""


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": line_of(next(e for e in table[group, number].values() if call_of(e) == usual))}
                return {"rank": rank, "cause": "other", "line": line_of(table[group, number][rank])}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: rank_with_fewest_records
# Blames the rank whose dump has the fewest calls that are completed.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    counts = {dump["rank"]: sum(e["state"] == "completed" for e in dump["entries"]) for dump in dumps}
    if len(set(counts.values())) > 1:
        rank = min(counts, key=counts.get)
        entry = next(e for dump in dumps for e in dump["entries"] if dump["rank"] == rank and e["state"] != "completed")
        return {"rank": rank, "cause": "skipped", "line": line_of(entry)}
    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: missing_number_is_absent
# Blames each rank that has not called a number which another rank of its group has. It can be waiting elsewhere.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for (group, number), entries in sorted(table.items(), key=lambda item: -item[0][1]):
        for rank in members[group]:
            if rank not in entries:
                return {"rank": rank, "cause": "absent", "line": line}


# %% wrong: dead_is_absent
# Calls a rank absent that left no dump.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "absent", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: each_other_call_is_skipped
# Calls each call that differs a skipped one.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: each_other_call_is_another
# Calls each call that differs another one, without looking at what the others call later.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if not later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: skipped_by_name_and_size_only
# Looks for the call among later ones by name and size. A call that only one rank makes can have those of others.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call[:2] in {one[:2] for one in later}:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: line_of_the_wrong_rank
# For a call that was left out, gives the line where the rank at fault went on.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": call[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: line_of_the_others
# For another call, gives the line where the others were.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": usual[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: innermost_frame
# Gives the first frame, which is PyTorch's.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = entry["frames"][0]
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: outermost_frame
# Gives the last frame, where the program began.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = entry["frames"][-1]
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: file_name_only
# Shortens the file's name.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename'].split('/')[-1]}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: where_the_last_rank_waits
# For a rank that died or is absent, gives the line where a rank began to wait last.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(max(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: scheduled_calls_wait
# Takes the calls that were launched last for those that wait. They are queued behind them.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "scheduled"]
    line = line_of(max(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: last_completed_line
# For a rank that died or is absent, gives the line of the last call that completed.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "completed"]
    line = line_of(max(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: first_rank_is_the_measure
# Compares all ranks with the first one of the group, and blames the ones that differ from it.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual = calls[min(calls)]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: rank_in_the_group
# Gives the rank's place in its group.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": members[group].index(rank), "cause": "skipped", "line": usual[2]}
                return {"rank": members[group].index(rank), "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: dumps_by_place
# Takes the place of a dump in the list for its rank. A rank that died has none.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    dumps = [dict(dump, rank=place) for place, dump in enumerate(dumps)]
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: program_in_app
# Takes the first frame in /app, where the program of the examples lies.

import json
from collections import Counter


def why_it_hangs(dumps):
    def line(entry):
        for frame in entry["frames"]:
            if frame["filename"].startswith("/app"):
                return f"{frame['filename']}:{frame['line']}"

    def call(entry):
        return entry["profiling_name"], str(entry["input_sizes"]), line(entry)

    groups, calls = {}, {}
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            groups[name] = json.loads(group["ranks"])
        for place, entry in enumerate(dump["entries"]):
            key = entry["process_group"][0], entry["collective_seq_id"]
            calls.setdefault(key, {})[dump["rank"]] = (place, entry)

    started = [(e["time_created_ns"], d["rank"], e) for d in dumps for e in d["entries"] if e["state"] == "started"]
    first = min(started, key=lambda one: one[0])[2] if started else None

    everyone = {rank for group in groups.values() for rank in group}
    dead = everyone - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line(first)}

    found = []
    for (name, number), by_rank in calls.items():
        usual, votes = Counter(call(e) for _, e in by_rank.values()).most_common(1)[0]
        if votes < 2:
            continue
        for rank, (place, entry) in by_rank.items():
            if call(entry) != usual:
                found.append((number, place, name, rank, entry, usual))
    if found:
        number, _, name, rank, entry, usual = min(found, key=lambda one: one[1])
        later = {
            call(e)
            for (other, n), by_rank in calls.items()
            if other == name and n > number
            for r, (_, e) in by_rank.items()
            if r != rank
        }
        if call(entry) in later:
            return {"rank": rank, "cause": "skipped", "line": usual[2]}
        return {"rank": rank, "cause": "other", "line": line(entry)}

    for dump in dumps:
        if any(e["state"] != "completed" for e in dump["entries"]):
            continue
        for _, _, e in started:
            key = e["process_group"][0], e["collective_seq_id"]
            if dump["rank"] in groups[key[0]] and dump["rank"] not in calls[key]:
                return {"rank": dump["rank"], "cause": "absent", "line": line(first)}


# %% wrong: kinds_not_compared
# Compares sizes and lines of calls, and not their kinds.

import json
from collections import Counter


def why_it_hangs(dumps):
    def line(entry):
        for frame in entry["frames"]:
            if "/torch/" not in frame["filename"]:
                return f"{frame['filename']}:{frame['line']}"

    def call(entry):
        return "", str(entry["input_sizes"]), line(entry)

    groups, calls = {}, {}
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            groups[name] = json.loads(group["ranks"])
        for place, entry in enumerate(dump["entries"]):
            key = entry["process_group"][0], entry["collective_seq_id"]
            calls.setdefault(key, {})[dump["rank"]] = (place, entry)

    started = [(e["time_created_ns"], d["rank"], e) for d in dumps for e in d["entries"] if e["state"] == "started"]
    first = min(started, key=lambda one: one[0])[2] if started else None

    everyone = {rank for group in groups.values() for rank in group}
    dead = everyone - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line(first)}

    found = []
    for (name, number), by_rank in calls.items():
        usual, votes = Counter(call(e) for _, e in by_rank.values()).most_common(1)[0]
        if votes < 2:
            continue
        for rank, (place, entry) in by_rank.items():
            if call(entry) != usual:
                found.append((number, place, name, rank, entry, usual))
    if found:
        number, _, name, rank, entry, usual = min(found, key=lambda one: one[1])
        later = {
            call(e)
            for (other, n), by_rank in calls.items()
            if other == name and n > number
            for r, (_, e) in by_rank.items()
            if r != rank
        }
        if call(entry) in later:
            return {"rank": rank, "cause": "skipped", "line": usual[2]}
        return {"rank": rank, "cause": "other", "line": line(entry)}

    for dump in dumps:
        if any(e["state"] != "completed" for e in dump["entries"]):
            continue
        for _, _, e in started:
            key = e["process_group"][0], e["collective_seq_id"]
            if dump["rank"] in groups[key[0]] and dump["rank"] not in calls[key]:
                return {"rank": dump["rank"], "cause": "absent", "line": line(first)}


# %% wrong: as_many_ranks_as_dumps
# Takes the number of dumps for the number of ranks, so that a dead last rank is never missed.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = set(range(len(dumps))) - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: skipped_if_called_before
# Looks for the call among all of the group's, also among earlier ones.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other != number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% wrong: barriers_left_out
# Leaves barriers out, because they move no data. A rank can be alone in one.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            if "barrier" in entry["profiling_name"]:
                continue
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% right: by_a_table
# A table by group and number, with Counter.

import json
from collections import Counter, defaultdict


def line_of(entry):
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


def call_of(entry):
    return entry["profiling_name"], str(entry["input_sizes"]), line_of(entry)


def why_it_hangs(dumps):
    members, table = {}, defaultdict(dict)
    for dump in dumps:
        for name, group in dump["pg_config"].items():
            members[name] = json.loads(group["ranks"])
        for entry in dump["entries"]:
            table[entry["process_group"][0], entry["collective_seq_id"]][dump["rank"]] = entry

    for group, number in sorted(table, key=lambda key: key[1]):
        calls = {rank: call_of(entry) for rank, entry in table[group, number].items()}
        usual, _ = Counter(calls.values()).most_common(1)[0]
        for rank, call in calls.items():
            if call != usual:
                later = {
                    call_of(entry)
                    for (name, other), entries in table.items()
                    for one, entry in entries.items()
                    if name == group and other > number and one != rank
                }
                if call in later:
                    return {"rank": rank, "cause": "skipped", "line": usual[2]}
                return {"rank": rank, "cause": "other", "line": call[2]}

    waiting = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    line = line_of(min(waiting, key=lambda entry: entry["time_created_ns"]))
    dead = {rank for ranks in members.values() for rank in ranks} - {dump["rank"] for dump in dumps}
    if dead:
        return {"rank": dead.pop(), "cause": "died", "line": line}
    for dump in dumps:
        if all(entry["state"] == "completed" for entry in dump["entries"]):
            return {"rank": dump["rank"], "cause": "absent", "line": line}


# %% right: by_sequences
# For each group, the lists of all its ranks' calls are laid beside each other.

import ast


def place_of(entry):
    for frame in entry["frames"]:
        if "/torch/" not in frame["filename"]:
            return "{filename}:{line}".format(**frame)
    return ""


def the_call(entry):
    return (entry["profiling_name"], *map(tuple, entry["input_sizes"]), place_of(entry))


def odd_one(sequences):
    """The first number at which one rank's call is not that of most, and that rank."""
    for number in sorted(set().union(*sequences.values())):
        calls = {rank: sequence[number] for rank, sequence in sequences.items() if number in sequence}
        for rank, call in calls.items():
            alike = sum(other == call for other in calls.values())
            if alike * 2 < len(calls):
                return number, rank
    return None


def why_it_hangs(dumps):
    by_rank = {dump["rank"]: dump for dump in dumps}
    groups = {}
    for dump in dumps:
        for group in dump["pg_config"].values():
            groups[group["name"]] = ast.literal_eval(group["ranks"])
    for name, ranks in groups.items():
        sequences = {
            rank: {
                entry["collective_seq_id"]: the_call(entry)
                for entry in by_rank[rank]["entries"]
                if entry["process_group"][0] == name
            }
            for rank in ranks
            if rank in by_rank
        }
        found = odd_one(sequences)
        if found:
            number, rank = found
            call = sequences[rank][number]
            others = [sequence for one, sequence in sequences.items() if one != rank]
            if any(call == other[later] for other in others for later in other if later > number):
                missed = next(other[number] for other in others if number in other)
                return {"rank": rank, "cause": "skipped", "line": missed[-1]}
            return {"rank": rank, "cause": "other", "line": call[-1]}

    started = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    started.sort(key=lambda entry: entry["time_created_ns"])
    result = {"line": place_of(started[0])}
    missing = {rank for ranks in groups.values() for rank in ranks if rank not in by_rank}
    if missing:
        return {"rank": min(missing), "cause": "died", **result}
    idle = [rank for rank, dump in by_rank.items() if dump["entries"][-1]["state"] == "completed"]
    return {"rank": idle[0], "cause": "absent", **result}


# %% right: dead_and_absent_first
# First who left no dump, then who waits for nothing, then the first call in time that differs.

import json


def where(entry):
    frames = [frame for frame in entry["frames"] if "/torch/" not in frame["filename"]]
    return frames[0]["filename"] + ":" + str(frames[0]["line"])


def same(a, b):
    return all(a[key] == b[key] for key in ("profiling_name", "input_sizes")) and where(a) == where(b)


def why_it_hangs(dumps):
    everyone = set()
    for dump in dumps:
        for group in dump["pg_config"].values():
            everyone.update(json.loads(group["ranks"]))
    started = [entry for dump in dumps for entry in dump["entries"] if entry["state"] == "started"]
    first = where(sorted(started, key=lambda entry: entry["time_created_ns"])[0])
    alive = {dump["rank"] for dump in dumps}
    if everyone != alive:
        [rank] = everyone - alive
        return {"rank": rank, "cause": "died", "line": first}
    for dump in dumps:
        if not [entry for entry in dump["entries"] if entry["state"] != "completed"]:
            return {"rank": dump["rank"], "cause": "absent", "line": first}

    records = [(entry, dump["rank"]) for dump in dumps for entry in dump["entries"]]
    records.sort(key=lambda record: record[0]["time_created_ns"])
    for entry, rank in records:
        group, number = entry["process_group"][0], entry["collective_seq_id"]
        others = [(e, r) for e, r in records if e["process_group"][0] == group and r != rank]
        beside = [e for e, _ in others if e["collective_seq_id"] == number]
        if sum(same(entry, e) for e in beside) < sum(not same(entry, e) for e in beside):
            if any(same(entry, e) for e, _ in others if e["collective_seq_id"] > number):
                return {"rank": rank, "cause": "skipped", "line": where(beside[0])}
            return {"rank": rank, "cause": "other", "line": where(entry)}


# %% right: as_a_class
# A class for a call, and a group's calls as a list of dicts.

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    name: str
    sizes: str
    line: str

    @classmethod
    def of(cls, entry):
        for frame in entry["frames"]:
            if "/torch/" not in frame["filename"]:
                line = f"{frame['filename']}:{frame['line']}"
                return cls(entry["profiling_name"], json.dumps(entry["input_sizes"]), line)


class Group:
    def __init__(self, ranks):
        self.ranks, self.calls = ranks, {}

    def add(self, rank, entry):
        self.calls.setdefault(entry["collective_seq_id"], {})[rank] = Call.of(entry)

    def fault(self):
        for number in sorted(self.calls):
            calls = list(self.calls[number].values())
            for rank, call in self.calls[number].items():
                if calls.count(call) == 1 and len(calls) > 2:
                    later = [n for n in self.calls if n > number]
                    again = any(call == c for n in later for r, c in self.calls[n].items() if r != rank)
                    others = next(c for c in calls if c != call)
                    return rank, "skipped" if again else "other", others.line if again else call.line
        return None


def why_it_hangs(dumps):
    groups = {}
    for dump in dumps:
        for name, told in dump["pg_config"].items():
            groups.setdefault(name, Group(json.loads(told["ranks"])))
        for entry in dump["entries"]:
            groups[entry["process_group"][0]].add(dump["rank"], entry)
    found = next(filter(None, (group.fault() for group in groups.values())), None)
    if found is None:
        waiting = {
            entry["time_created_ns"]: Call.of(entry).line
            for dump in dumps
            for entry in dump["entries"]
            if entry["state"] == "started"
        }
        line = waiting[min(waiting)]
        there = [dump["rank"] for dump in dumps]
        gone = [rank for group in groups.values() for rank in group.ranks if rank not in there]
        free = [dump["rank"] for dump in dumps if {e["state"] for e in dump["entries"]} == {"completed"}]
        found = (gone[0], "died", line) if gone else (free[0], "absent", line)
    return dict(zip(("rank", "cause", "line"), found))
