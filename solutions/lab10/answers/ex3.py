# %% wrong: own_forward_forgotten
# Forgets that a backward pass needs its own forward pass.

def first_mistake(lists, placement, cap):
    rows = [[tuple(Action.parse(text)) for text in row.split()] for row in lists]
    every = [action for row in rows for action in row]
    seen = set()
    for rank, row in enumerate(rows):
        for position, action in enumerate(row):
            if placement[action[1]] != rank:
                return rank, position, "rank"
            if action in seen:
                return rank, position, "twice"
            seen.add(action)

    def needs(kind, s, m):
        if kind == "F":
            return [("F", s - 1, m)] if s else []
        return [("B", s + 1, m)] if s + 1 < len(placement) else []

    done, places, moved = set(), [0] * len(rows), True
    while moved:
        moved = False
        for rank, row in enumerate(rows):
            if places[rank] < len(row) and all(need in done for need in needs(*row[places[rank]])):
                done.add(row[places[rank]])
                places[rank] += 1
                moved = True
    stuck = [rank for rank in range(len(rows)) if places[rank] < len(rows[rank])]
    for rank in stuck:
        missing = [need for need in needs(*rows[rank][places[rank]]) if need not in done]
        if any(need not in every or need in rows[rank] for need in missing):
            return rank, places[rank], "dependency"
    if stuck:
        return stuck[0], places[stuck[0]], "deadlock"
    for rank, row in enumerate(rows):
        flying = 0
        for position, (kind, _, _) in enumerate(row):
            flying += 1 if kind == "F" else -1
            if flying > cap:
                return rank, position, "memory"
    return None


# %% wrong: deadlock_not_seen
# Looks whether every needed action is in some list, in no order, and so never finds ranks that wait in a circle.

def first_mistake(lists, placement, cap):
    rows = [[tuple(Action.parse(text)) for text in row.split()] for row in lists]
    every = [action for row in rows for action in row]
    seen = set()
    for rank, row in enumerate(rows):
        for position, action in enumerate(row):
            if placement[action[1]] != rank:
                return rank, position, "rank"
            if action in seen:
                return rank, position, "twice"
            seen.add(action)

    def needs(kind, s, m):
        if kind == "F":
            return [("F", s - 1, m)] if s else []
        return [("F", s, m)] + ([("B", s + 1, m)] if s + 1 < len(placement) else [])

    done, places, moved = set(), [0] * len(rows), True
    while moved:
        moved = False
        for rank, row in enumerate(rows):
            if places[rank] < len(row) and all(need in done for need in needs(*row[places[rank]])):
                done.add(row[places[rank]])
                places[rank] += 1
                moved = True
    stuck = [rank for rank in range(len(rows)) if places[rank] < len(rows[rank])]
    for rank in stuck:
        missing = [need for need in needs(*rows[rank][places[rank]]) if need not in done]
        if any(need not in every or need in rows[rank] for need in missing):
            return rank, places[rank], "dependency"
    for rank, row in enumerate(rows):
        flying = 0
        for position, (kind, _, _) in enumerate(row):
            flying += 1 if kind == "F" else -1
            if flying > cap:
                return rank, position, "memory"
    return None


# %% wrong: each_rank_alone
# Looks at each list alone: what other ranks do is taken to be done in time.

def first_mistake(lists, placement, cap):
    rows = [[tuple(Action.parse(text)) for text in row.split()] for row in lists]
    every = [action for row in rows for action in row]
    seen = set()
    for rank, row in enumerate(rows):
        for position, action in enumerate(row):
            if placement[action[1]] != rank:
                return rank, position, "rank"
            if action in seen:
                return rank, position, "twice"
            seen.add(action)

    def needs(kind, s, m):
        if kind == "F":
            return [("F", s - 1, m)] if s else []
        return [("F", s, m)] + ([("B", s + 1, m)] if s + 1 < len(placement) else [])

    places = []
    for row in rows:
        others = [action for action in every if action not in row]
        place = 0
        while place < len(row) and all(need in others or need in row[:place] for need in needs(*row[place])):
            place += 1
        places.append(place)
    done = set(every)
    stuck = [rank for rank in range(len(rows)) if places[rank] < len(rows[rank])]
    for rank in stuck:
        missing = [need for need in needs(*rows[rank][places[rank]]) if need not in done]
        if any(need not in every or need in rows[rank] for need in missing):
            return rank, places[rank], "dependency"
    if stuck:
        return stuck[0], places[stuck[0]], "deadlock"
    for rank, row in enumerate(rows):
        flying = 0
        for position, (kind, _, _) in enumerate(row):
            flying += 1 if kind == "F" else -1
            if flying > cap:
                return rank, position, "memory"
    return None


# %% wrong: mistakes_of_a_kind_first
# Looks for all actions on wrong ranks before any that is there twice.

def first_mistake(lists, placement, cap):
    rows = [[tuple(Action.parse(text)) for text in row.split()] for row in lists]
    every = [action for row in rows for action in row]
    for rank, row in enumerate(rows):
        for position, action in enumerate(row):
            if placement[action[1]] != rank:
                return rank, position, "rank"
    seen = set()
    for rank, row in enumerate(rows):
        for position, action in enumerate(row):
            if action in seen:
                return rank, position, "twice"
            seen.add(action)

    def needs(kind, s, m):
        if kind == "F":
            return [("F", s - 1, m)] if s else []
        return [("F", s, m)] + ([("B", s + 1, m)] if s + 1 < len(placement) else [])

    done, places, moved = set(), [0] * len(rows), True
    while moved:
        moved = False
        for rank, row in enumerate(rows):
            if places[rank] < len(row) and all(need in done for need in needs(*row[places[rank]])):
                done.add(row[places[rank]])
                places[rank] += 1
                moved = True
    stuck = [rank for rank in range(len(rows)) if places[rank] < len(rows[rank])]
    for rank in stuck:
        missing = [need for need in needs(*rows[rank][places[rank]]) if need not in done]
        if any(need not in every or need in rows[rank] for need in missing):
            return rank, places[rank], "dependency"
    if stuck:
        return stuck[0], places[stuck[0]], "deadlock"
    for rank, row in enumerate(rows):
        flying = 0
        for position, (kind, _, _) in enumerate(row):
            flying += 1 if kind == "F" else -1
            if flying > cap:
                return rank, position, "memory"
    return None


# %% wrong: stage_is_rank
# Takes stage s to be on rank s, whatever the placement says.

def first_mistake(lists, placement, cap):
    rows = [[tuple(Action.parse(text)) for text in row.split()] for row in lists]
    every = [action for row in rows for action in row]
    seen = set()
    for rank, row in enumerate(rows):
        for position, action in enumerate(row):
            if action[1] != rank:
                return rank, position, "rank"
            if action in seen:
                return rank, position, "twice"
            seen.add(action)

    def needs(kind, s, m):
        if kind == "F":
            return [("F", s - 1, m)] if s else []
        return [("F", s, m)] + ([("B", s + 1, m)] if s + 1 < len(placement) else [])

    done, places, moved = set(), [0] * len(rows), True
    while moved:
        moved = False
        for rank, row in enumerate(rows):
            if places[rank] < len(row) and all(need in done for need in needs(*row[places[rank]])):
                done.add(row[places[rank]])
                places[rank] += 1
                moved = True
    stuck = [rank for rank in range(len(rows)) if places[rank] < len(rows[rank])]
    for rank in stuck:
        missing = [need for need in needs(*rows[rank][places[rank]]) if need not in done]
        if any(need not in every or need in rows[rank] for need in missing):
            return rank, places[rank], "dependency"
    if stuck:
        return stuck[0], places[stuck[0]], "deadlock"
    for rank, row in enumerate(rows):
        flying = 0
        for position, (kind, _, _) in enumerate(row):
            flying += 1 if kind == "F" else -1
            if flying > cap:
                return rank, position, "memory"
    return None


# %% wrong: cap_for_each_stage
# Counts what each stage has in flight, and not the rank.

def first_mistake(lists, placement, cap):
    rows = [[tuple(Action.parse(text)) for text in row.split()] for row in lists]
    every = [action for row in rows for action in row]
    seen = set()
    for rank, row in enumerate(rows):
        for position, action in enumerate(row):
            if placement[action[1]] != rank:
                return rank, position, "rank"
            if action in seen:
                return rank, position, "twice"
            seen.add(action)

    def needs(kind, s, m):
        if kind == "F":
            return [("F", s - 1, m)] if s else []
        return [("F", s, m)] + ([("B", s + 1, m)] if s + 1 < len(placement) else [])

    done, places, moved = set(), [0] * len(rows), True
    while moved:
        moved = False
        for rank, row in enumerate(rows):
            if places[rank] < len(row) and all(need in done for need in needs(*row[places[rank]])):
                done.add(row[places[rank]])
                places[rank] += 1
                moved = True
    stuck = [rank for rank in range(len(rows)) if places[rank] < len(rows[rank])]
    for rank in stuck:
        missing = [need for need in needs(*rows[rank][places[rank]]) if need not in done]
        if any(need not in every or need in rows[rank] for need in missing):
            return rank, places[rank], "dependency"
    if stuck:
        return stuck[0], places[stuck[0]], "deadlock"
    for rank, row in enumerate(rows):
        flying = {}
        for position, (kind, stage, _) in enumerate(row):
            flying[stage] = flying.get(stage, 0) + (1 if kind == "F" else -1)
            if flying[stage] > cap:
                return rank, position, "memory"
    return None


# %% wrong: first_stuck_is_a_deadlock
# Calls everything that waits a deadlock.

def first_mistake(lists, placement, cap):
    rows = [[tuple(Action.parse(text)) for text in row.split()] for row in lists]
    every = [action for row in rows for action in row]
    seen = set()
    for rank, row in enumerate(rows):
        for position, action in enumerate(row):
            if placement[action[1]] != rank:
                return rank, position, "rank"
            if action in seen:
                return rank, position, "twice"
            seen.add(action)

    def needs(kind, s, m):
        if kind == "F":
            return [("F", s - 1, m)] if s else []
        return [("F", s, m)] + ([("B", s + 1, m)] if s + 1 < len(placement) else [])

    done, places, moved = set(), [0] * len(rows), True
    while moved:
        moved = False
        for rank, row in enumerate(rows):
            if places[rank] < len(row) and all(need in done for need in needs(*row[places[rank]])):
                done.add(row[places[rank]])
                places[rank] += 1
                moved = True
    stuck = [rank for rank in range(len(rows)) if places[rank] < len(rows[rank])]
    if stuck:
        return stuck[0], places[stuck[0]], "deadlock"
    for rank, row in enumerate(rows):
        flying = 0
        for position, (kind, _, _) in enumerate(row):
            flying += 1 if kind == "F" else -1
            if flying > cap:
                return rank, position, "memory"
    return None


# %% wrong: full_is_too_much
# Takes a rank that is at the cap for one above it.

def first_mistake(lists, placement, cap):
    rows = [[tuple(Action.parse(text)) for text in row.split()] for row in lists]
    every = [action for row in rows for action in row]
    seen = set()
    for rank, row in enumerate(rows):
        for position, action in enumerate(row):
            if placement[action[1]] != rank:
                return rank, position, "rank"
            if action in seen:
                return rank, position, "twice"
            seen.add(action)

    def needs(kind, s, m):
        if kind == "F":
            return [("F", s - 1, m)] if s else []
        return [("F", s, m)] + ([("B", s + 1, m)] if s + 1 < len(placement) else [])

    done, places, moved = set(), [0] * len(rows), True
    while moved:
        moved = False
        for rank, row in enumerate(rows):
            if places[rank] < len(row) and all(need in done for need in needs(*row[places[rank]])):
                done.add(row[places[rank]])
                places[rank] += 1
                moved = True
    stuck = [rank for rank in range(len(rows)) if places[rank] < len(rows[rank])]
    for rank in stuck:
        missing = [need for need in needs(*rows[rank][places[rank]]) if need not in done]
        if any(need not in every or need in rows[rank] for need in missing):
            return rank, places[rank], "dependency"
    if stuck:
        return stuck[0], places[stuck[0]], "deadlock"
    for rank, row in enumerate(rows):
        flying = 0
        for position, (kind, _, _) in enumerate(row):
            flying += 1 if kind == "F" else -1
            if flying >= cap:
                return rank, position, "memory"
    return None


# %% wrong: must_be_finished
# Calls lists in which a micro-batch has no backward pass broken.

def first_mistake(lists, placement, cap):
    rows = [[tuple(Action.parse(text)) for text in row.split()] for row in lists]
    every = [action for row in rows for action in row]
    seen = set()
    for rank, row in enumerate(rows):
        for position, action in enumerate(row):
            if placement[action[1]] != rank:
                return rank, position, "rank"
            if action in seen:
                return rank, position, "twice"
            seen.add(action)

    def needs(kind, s, m):
        if kind == "F":
            return [("F", s - 1, m)] if s else []
        return [("F", s, m)] + ([("B", s + 1, m)] if s + 1 < len(placement) else [])

    done, places, moved = set(), [0] * len(rows), True
    while moved:
        moved = False
        for rank, row in enumerate(rows):
            if places[rank] < len(row) and all(need in done for need in needs(*row[places[rank]])):
                done.add(row[places[rank]])
                places[rank] += 1
                moved = True
    stuck = [rank for rank in range(len(rows)) if places[rank] < len(rows[rank])]
    for rank in stuck:
        missing = [need for need in needs(*rows[rank][places[rank]]) if need not in done]
        if any(need not in every or need in rows[rank] for need in missing):
            return rank, places[rank], "dependency"
    if stuck:
        return stuck[0], places[stuck[0]], "deadlock"
    for rank, row in enumerate(rows):
        flying = 0
        for position, (kind, _, _) in enumerate(row):
            flying += 1 if kind == "F" else -1
            if flying > cap:
                return rank, position, "memory"
    for rank, row in enumerate(rows):
        for kind, s, m in row:
            if ("B", s, m) not in row:
                return rank, len(row) - 1, "dependency"
    return None


# %% wrong: twice_before_rank
# Asks first whether an action was there before, so a copy of another rank's action is "twice".

def first_mistake(lists, placement, cap):
    rows = [[tuple(Action.parse(text)) for text in row.split()] for row in lists]
    every = [action for row in rows for action in row]
    seen = set()
    for rank, row in enumerate(rows):
        for position, action in enumerate(row):
            if action in seen:
                return rank, position, "twice"
            if placement[action[1]] != rank:
                return rank, position, "rank"
            seen.add(action)

    def needs(kind, s, m):
        if kind == "F":
            return [("F", s - 1, m)] if s else []
        return [("F", s, m)] + ([("B", s + 1, m)] if s + 1 < len(placement) else [])

    done, places, moved = set(), [0] * len(rows), True
    while moved:
        moved = False
        for rank, row in enumerate(rows):
            if places[rank] < len(row) and all(need in done for need in needs(*row[places[rank]])):
                done.add(row[places[rank]])
                places[rank] += 1
                moved = True
    stuck = [rank for rank in range(len(rows)) if places[rank] < len(rows[rank])]
    for rank in stuck:
        missing = [need for need in needs(*rows[rank][places[rank]]) if need not in done]
        if any(need not in every or need in rows[rank] for need in missing):
            return rank, places[rank], "dependency"
    if stuck:
        return stuck[0], places[stuck[0]], "deadlock"
    for rank, row in enumerate(rows):
        flying = 0
        for position, (kind, _, _) in enumerate(row):
            flying += 1 if kind == "F" else -1
            if flying > cap:
                return rank, position, "memory"
    return None


# %% right: with_sets
# As the lab says it, with numbers for the places.

def first_mistake(lists, placement, cap):
    rows = [[tuple(Action.parse(text)) for text in row.split()] for row in lists]
    every = [action for row in rows for action in row]
    seen = set()
    for rank, row in enumerate(rows):
        for position, action in enumerate(row):
            if placement[action[1]] != rank:
                return rank, position, "rank"
            if action in seen:
                return rank, position, "twice"
            seen.add(action)

    def needs(kind, s, m):
        if kind == "F":
            return [("F", s - 1, m)] if s else []
        return [("F", s, m)] + ([("B", s + 1, m)] if s + 1 < len(placement) else [])

    done, places, moved = set(), [0] * len(rows), True
    while moved:
        moved = False
        for rank, row in enumerate(rows):
            if places[rank] < len(row) and all(need in done for need in needs(*row[places[rank]])):
                done.add(row[places[rank]])
                places[rank] += 1
                moved = True
    stuck = [rank for rank in range(len(rows)) if places[rank] < len(rows[rank])]
    for rank in stuck:
        missing = [need for need in needs(*rows[rank][places[rank]]) if need not in done]
        if any(need not in every or need in rows[rank] for need in missing):
            return rank, places[rank], "dependency"
    if stuck:
        return stuck[0], places[stuck[0]], "deadlock"
    for rank, row in enumerate(rows):
        flying = 0
        for position, (kind, _, _) in enumerate(row):
            flying += 1 if kind == "F" else -1
            if flying > cap:
                return rank, position, "memory"
    return None


# %% right: removes_what_is_done
# Takes what is done off the lists; what is left over is stuck.

from collections import Counter


def problems_by_themselves(rows, placement):
    counts = Counter()
    for rank, row in enumerate(rows):
        for position, text in enumerate(row):
            counts[text] += 1
            if placement[Action.parse(text).stage] != rank:
                return [rank, position, "rank"]
            if counts[text] == 2:
                return [rank, position, "twice"]


def first_mistake(lists, placement, cap):
    rows = [row.split() for row in lists]
    found = problems_by_themselves(rows, placement)
    if found:
        return found
    left, done = [list(row) for row in rows], set()

    def open_needs(text):
        kind, stage, number = Action.parse(text)
        needs = []
        if kind == "F" and stage > 0:
            needs.append(f"F{stage - 1}.{number}")
        if kind == "B":
            needs.append(f"F{stage}.{number}")
            if stage < len(placement) - 1:
                needs.append(f"B{stage + 1}.{number}")
        return [need for need in needs if need not in done]

    while True:
        ready = [row for row in left if row and not open_needs(row[0])]
        if not ready:
            break
        for row in ready:
            done.add(row.pop(0))
    waiting = [(rank, len(rows[rank]) - len(row), open_needs(row[0])) for rank, row in enumerate(left) if row]
    everything = set().union(*rows)
    for rank, position, needs in waiting:
        if set(needs) - everything or set(needs) & set(rows[rank]):
            return rank, position, "dependency"
    if waiting:
        return waiting[0][0], waiting[0][1], "deadlock"
    for rank, row in enumerate(rows):
        for position in range(len(row)):
            begun = "".join(row[: position + 1])
            if begun.count("F") - begun.count("B") > cap:
                return rank, position, "memory"


# %% wrong: last_stuck_rank_with_a_dependency
# Answers with the last rank whose action needs what never comes, not with the first.

def first_mistake(lists, placement, cap):
    rows = [[tuple(Action.parse(text)) for text in row.split()] for row in lists]
    seen, done, last = set(), set(), len(placement) - 1
    for rank, row in enumerate(rows):
        for position, action in enumerate(row):
            if placement[action[1]] != rank:
                return rank, position, "rank"
            if action in seen:
                return rank, position, "twice"
            seen.add(action)

    def missing(kind, s, m):
        needs = {("F", s - 1, m)} if kind == "F" else {("F", s, m), ("B", s + 1, m)}
        return {need for need in needs if 0 <= need[1] <= last} - done

    places = [0] * len(rows)
    for _ in seen:  # in each turn some rank advances, or none ever will
        for rank, row in enumerate(rows):
            while places[rank] < len(row) and not missing(*row[places[rank]]):
                done.add(row[places[rank]])
                places[rank] += 1

    stuck = [rank for rank, row in enumerate(rows) if places[rank] < len(row)]
    for rank in reversed(stuck):
        if any(need not in seen or need in rows[rank] for need in missing(*rows[rank][places[rank]])):
            return rank, places[rank], "dependency"
    if stuck:
        return stuck[0], places[stuck[0]], "deadlock"
    for rank, row in enumerate(rows):
        for position in range(len(row)):
            kinds = [kind for kind, _, _ in row[: position + 1]]
            if kinds.count("F") - kinds.count("B") > cap:
                return rank, position, "memory"
    return None
