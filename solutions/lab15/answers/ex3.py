# %% wrong: saves_everything
# Saves all operators: then nothing runs again.

def choose(operators, cap):
    return set(operators)



def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        if str(operator) in saved:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: recomputes_everything
# Saves nothing, which is surely under the cap.

def choose(operators, cap):
    return set()



def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        if str(operator) in saved:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: products_only
# Saves the products, and nothing else: they take the most time.

def choose(operators, cap):
    return {name for name in operators if "mm" in name and operators[name]["bytes"] <= cap}



def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        if str(operator) in saved:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: cheap_ones_saved
# Saves what is small first, norms and sums, and then recomputes the products.

def choose(operators, cap):
    saved, left = set(), cap
    for name in sorted(operators, key=lambda name: operators[name]["bytes"]):
        if operators[name]["bytes"] <= left:
            saved.add(name)
            left -= operators[name]["bytes"]
    return saved



def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        if str(operator) in saved:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: slowest_first
# Saves the slowest operators first, as long as they fit.

def choose(operators, cap):
    saved, left = set(), cap
    for name in sorted(operators, key=lambda name: -operators[name]["seconds"]):
        if operators[name]["bytes"] <= left:
            saved.add(name)
            left -= operators[name]["bytes"]
    return saved



def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        if str(operator) in saved:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: best_rate_first
# Saves the operators with the most seconds for each byte first. A set without the first one may be better.

def choose(operators, cap):
    saved, left = set(), cap
    for name in sorted(operators, key=lambda name: -operators[name]["seconds"] / operators[name]["bytes"]):
        if operators[name]["bytes"] <= left:
            saved.add(name)
            left -= operators[name]["bytes"]
    return saved



def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        if str(operator) in saved:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: largest_first
# Saves the largest outputs first, to use the memory up.

def choose(operators, cap):
    saved, left = set(), cap
    for name in sorted(operators, key=lambda name: -operators[name]["bytes"]):
        if operators[name]["bytes"] <= left:
            saved.add(name)
            left -= operators[name]["bytes"]
    return saved



def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        if str(operator) in saved:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: stops_at_the_first_that_does_not_fit
# Takes the best rates first, and stops at the first operator that does not fit.

def choose(operators, cap):
    saved, used = set(), 0
    rates = sorted(operators, key=lambda name: operators[name]["bytes"] / operators[name]["seconds"])
    for name in rates:
        used += operators[name]["bytes"]
        if used > cap:
            break
        saved.add(name)
    return saved



def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        if str(operator) in saved:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: under_the_cap_only
# Asks for less than cap bytes, so a set that takes exactly cap bytes does not fit.

def choose(operators, cap):
    best, most = set(), 0.0
    for count in range(len(operators) + 1):
        for names in itertools.combinations(operators, count):
            size = sum(operators[name]["bytes"] for name in names)
            seconds = sum(operators[name]["seconds"] for name in names)
            if size < cap and seconds > most:
                best, most = set(names), seconds
    return best



def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        if str(operator) in saved:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: returns_those_to_recompute
# Returns the operators that run again.

def choose(operators, cap):
    best, most = set(), 0.0
    for count in range(len(operators) + 1):
        for names in itertools.combinations(operators, count):
            size = sum(operators[name]["bytes"] for name in names)
            seconds = sum(operators[name]["seconds"] for name in names)
            if size <= cap and seconds > most:
                best, most = set(names), seconds
    return set(operators) - best



def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        if str(operator) in saved:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: fills_the_memory
# Looks for the set that takes the most bytes.

def choose(operators, cap):
    best, most = set(), 0.0
    for count in range(len(operators) + 1):
        for names in itertools.combinations(operators, count):
            size = sum(operators[name]["bytes"] for name in names)
            if size <= cap and size > most:
                best, most = set(names), size
    return best



def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        if str(operator) in saved:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: as_many_as_fit
# Saves as many operators as fit, and of these sets the one with the most seconds.

def choose(operators, cap):
    for count in range(len(operators), -1, -1):
        sets = [set(names) for names in itertools.combinations(operators, count)]
        fitting = [names for names in sets if sum(operators[name]["bytes"] for name in names) <= cap]
        if fitting:
            return max(fitting, key=lambda names: sum(operators[name]["seconds"] for name in names))



def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        if str(operator) in saved:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: one_left_out
# Takes the best rates first, and tries that again without each single operator. Two of them may be in the way.

def by_rate(operators, cap):
    saved, left = set(), cap
    for name in sorted(operators, key=lambda name: -operators[name]["seconds"] / operators[name]["bytes"]):
        if operators[name]["bytes"] <= left:
            saved.add(name)
            left -= operators[name]["bytes"]
    return saved


def choose(operators, cap):
    tries = [by_rate(operators, cap)]
    for out in operators:
        tries.append(by_rate({name: cost for name, cost in operators.items() if name != out}, cap))
    return max(tries, key=lambda names: sum(operators[name]["seconds"] for name in names))



def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        if str(operator) in saved:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: pairs_at_most
# Tries single operators and pairs.

def choose(operators, cap):
    best, most = set(), 0.0
    for count in (1, 2):
        for names in itertools.combinations(operators, count):
            size = sum(operators[name]["bytes"] for name in names)
            seconds = sum(operators[name]["seconds"] for name in names)
            if size <= cap and seconds > most:
                best, most = set(names), seconds
    return best



def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        if str(operator) in saved:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: removes_what_it_has_chosen
# Takes operators out of the dict that it was given.

def choose(operators, cap):
    best, most = set(), 0.0
    for count in range(len(operators) + 1):
        for names in itertools.combinations(operators, count):
            size = sum(operators[name]["bytes"] for name in names)
            seconds = sum(operators[name]["seconds"] for name in names)
            if size <= cap and seconds > most:
                best, most = set(names), seconds
    for name in best:
        del operators[name]
    return best



def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        if str(operator) in saved:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: policy_inverted
# Returns the two policies the other way around.

def choose(operators, cap):
    best, most = set(), 0.0
    for count in range(len(operators) + 1):
        for names in itertools.combinations(operators, count):
            size = sum(operators[name]["bytes"] for name in names)
            seconds = sum(operators[name]["seconds"] for name in names)
            if size <= cap and seconds > most:
                best, most = set(names), seconds
    return best



def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        if str(operator) not in saved:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: operator_is_no_text
# Looks for the operator itself in a set of names, where it never is.

def choose(operators, cap):
    best, most = set(), 0.0
    for count in range(len(operators) + 1):
        for names in itertools.combinations(operators, count):
            size = sum(operators[name]["bytes"] for name in names)
            seconds = sum(operators[name]["seconds"] for name in names)
            if size <= cap and seconds > most:
                best, most = set(names), seconds
    return best



def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        if operator in saved:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: prefers_to_save
# Takes PREFER_SAVE for the weaker wish, which PyTorch might ignore. It saves each output.

def choose(operators, cap):
    best, most = set(), 0.0
    for count in range(len(operators) + 1):
        for names in itertools.combinations(operators, count):
            size = sum(operators[name]["bytes"] for name in names)
            seconds = sum(operators[name]["seconds"] for name in names)
            if size <= cap and seconds > most:
                best, most = set(names), seconds
    return best



def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        if str(operator) in saved:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_SAVE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: short_names
# Compares the part of the name before the overload with whole names.

def choose(operators, cap):
    best, most = set(), 0.0
    for count in range(len(operators) + 1):
        for names in itertools.combinations(operators, count):
            size = sum(operators[name]["bytes"] for name in names)
            seconds = sum(operators[name]["seconds"] for name in names)
            if size <= cap and seconds > most:
                best, most = set(names), seconds
    return best



def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        if str(operator.overloadpacket) in saved:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: contexts_made_once
# Makes the contexts at once and gives the same to each block.

def choose(operators, cap):
    best, most = set(), 0.0
    for count in range(len(operators) + 1):
        for names in itertools.combinations(operators, count):
            size = sum(operators[name]["bytes"] for name in names)
            seconds = sum(operators[name]["seconds"] for name in names)
            if size <= cap and seconds > most:
                best, most = set(names), seconds
    return best



def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if str(operator) in saved else CheckpointPolicy.PREFER_RECOMPUTE

    both = create_selective_checkpoint_contexts(policy)
    return lambda: both


# %% wrong: contexts_returned
# Returns the contexts, where checkpoint wants a function.

def choose(operators, cap):
    best, most = set(), 0.0
    for count in range(len(operators) + 1):
        for names in itertools.combinations(operators, count):
            size = sum(operators[name]["bytes"] for name in names)
            seconds = sum(operators[name]["seconds"] for name in names)
            if size <= cap and seconds > most:
                best, most = set(names), seconds
    return best



def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if str(operator) in saved else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


# %% wrong: policy_of_one_argument
# Writes a policy of the operator alone.

def choose(operators, cap):
    best, most = set(), 0.0
    for count in range(len(operators) + 1):
        for names in itertools.combinations(operators, count):
            size = sum(operators[name]["bytes"] for name in names)
            seconds = sum(operators[name]["seconds"] for name in names)
            if size <= cap and seconds > most:
                best, most = set(names), seconds
    return best



def contexts(saved):
    def policy(operator):
        return CheckpointPolicy.MUST_SAVE if str(operator) in saved else CheckpointPolicy.PREFER_RECOMPUTE

    return lambda: create_selective_checkpoint_contexts(policy)


# %% wrong: counts_its_calls
# Saves an operator at its first call only: later calls of the same block run again.

def choose(operators, cap):
    best, most = set(), 0.0
    for count in range(len(operators) + 1):
        for names in itertools.combinations(operators, count):
            size = sum(operators[name]["bytes"] for name in names)
            seconds = sum(operators[name]["seconds"] for name in names)
            if size <= cap and seconds > most:
                best, most = set(names), seconds
    return best



def contexts(saved):
    def context_fn():
        seen = {False: set(), True: set()}

        def policy(context, operator, *args, **kwargs):
            first = str(operator) not in seen[context.is_recompute]
            seen[context.is_recompute].add(str(operator))
            if first and str(operator) in saved:
                return CheckpointPolicy.MUST_SAVE
            return CheckpointPolicy.PREFER_RECOMPUTE

        return create_selective_checkpoint_contexts(policy)

    return context_fn


# %% wrong: products_whatever_is_asked
# Saves the products, as the lesson did, whatever saved has.

def choose(operators, cap):
    best, most = set(), 0.0
    for count in range(len(operators) + 1):
        for names in itertools.combinations(operators, count):
            size = sum(operators[name]["bytes"] for name in names)
            seconds = sum(operators[name]["seconds"] for name in names)
            if size <= cap and seconds > most:
                best, most = set(names), seconds
    return best



def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        if operator == torch.ops.aten.mm.default:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: nothing_saved_is_no_policy
# Returns None where there is nothing to save, and nothing is recomputed.

def choose(operators, cap):
    best, most = set(), 0.0
    for count in range(len(operators) + 1):
        for names in itertools.combinations(operators, count):
            size = sum(operators[name]["bytes"] for name in names)
            seconds = sum(operators[name]["seconds"] for name in names)
            if size <= cap and seconds > most:
                best, most = set(names), seconds
    return best



def contexts(saved):
    if not saved:
        return None

    def policy(context, operator, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if str(operator) in saved else CheckpointPolicy.PREFER_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: microseconds
# Compares whole microseconds, so short operators are worth nothing.

def choose(operators, cap):
    best = None
    for n in range(len(operators) + 1):
        for names in itertools.combinations(operators, n):
            if sum(operators[name]["bytes"] for name in names) <= cap:
                again = sum(int(cost["seconds"] * 1e6) for name, cost in operators.items() if name not in names)
                if best is None or again < best[0]:
                    best = again, set(names)
    return best[1]


def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if str(operator) in saved else CheckpointPolicy.MUST_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: rounds_to_microseconds
# Rounds seconds to microseconds.

def choose(operators, cap):
    best = None
    for n in range(len(operators) + 1):
        for names in itertools.combinations(operators, n):
            if sum(operators[name]["bytes"] for name in names) <= cap:
                again = sum(round(cost["seconds"], 6) for name, cost in operators.items() if name not in names)
                if best is None or again < best[0]:
                    best = again, set(names)
    return best[1]


def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if str(operator) in saved else CheckpointPolicy.MUST_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: at_most_seven
# Tries sets of at most 7 operators.

def choose(operators, cap):
    best = None
    for n in range(min(len(operators), 7) + 1):
        for names in itertools.combinations(operators, n):
            if sum(operators[name]["bytes"] for name in names) <= cap:
                again = sum(cost["seconds"] for name, cost in operators.items() if name not in names)
                if best is None or again < best[0]:
                    best = again, set(names)
    return best[1]


def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if str(operator) in saved else CheckpointPolicy.MUST_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: overloads_alike
# Compares the operators' names without their overloads, so aten.mul.Scalar saves aten.mul.Tensor.

def choose(operators, cap):
    best = None
    for n in range(len(operators) + 1):
        for names in itertools.combinations(operators, n):
            if sum(operators[name]["bytes"] for name in names) <= cap:
                again = sum(cost["seconds"] for name, cost in operators.items() if name not in names)
                if best is None or again < best[0]:
                    best = again, set(names)
    return best[1]


def contexts(saved):
    packets = {name.rpartition(".")[0] for name in saved}

    def policy(context, operator, *args, **kwargs):
        kept = str(operator).rpartition(".")[0] in packets
        return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.MUST_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: starts_with_is_enough
# Compares the beginnings of names, so aten.mul.Scalar saves aten.mul.Tensor.

def choose(operators, cap):
    best = None
    for n in range(len(operators) + 1):
        for names in itertools.combinations(operators, n):
            if sum(operators[name]["bytes"] for name in names) <= cap:
                again = sum(cost["seconds"] for name, cost in operators.items() if name not in names)
                if best is None or again < best[0]:
                    best = again, set(names)
    return best[1]


def contexts(saved):
    stems = tuple(name.rsplit(".", 1)[0] for name in saved)

    def policy(context, operator, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if str(operator).startswith(stems) else CheckpointPolicy.MUST_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: substring
# Looks for the operator's short name in the names to save: mm is in bmm.

def choose(operators, cap):
    best = None
    for n in range(len(operators) + 1):
        for names in itertools.combinations(operators, n):
            if sum(operators[name]["bytes"] for name in names) <= cap:
                again = sum(cost["seconds"] for name, cost in operators.items() if name not in names)
                if best is None or again < best[0]:
                    best = again, set(names)
    return best[1]


def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        name = str(operator).split(".")[1]
        return CheckpointPolicy.MUST_SAVE if any(name in each for each in saved) else CheckpointPolicy.MUST_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% wrong: saved_is_emptied
# Takes the names out of the caller's set.

def choose(operators, cap):
    best = None
    for n in range(len(operators) + 1):
        for names in itertools.combinations(operators, n):
            if sum(operators[name]["bytes"] for name in names) <= cap:
                again = sum(cost["seconds"] for name, cost in operators.items() if name not in names)
                if best is None or again < best[0]:
                    best = again, set(names)
    return best[1]


def contexts(saved):
    names = []
    while saved:
        names.append(saved.pop())

    def policy(context, operator, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if str(operator) in names else CheckpointPolicy.MUST_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)


# %% right: in_or_out_one_by_one
# Decides for one operator after the other, by recursion, and gives PyTorch True or False.

def choose(operators, cap):
    def best(names, room):
        if not names:
            return 0.0, frozenset()
        first, rest = names[0], names[1:]
        without = best(rest, room)
        if operators[first]["bytes"] > room:
            return without
        seconds, chosen = best(rest, room - operators[first]["bytes"])
        return max(without, (seconds + operators[first]["seconds"], chosen | {first}), key=lambda each: each[0])

    return set(best(list(operators), cap)[1])


def contexts(saved):
    return lambda: create_selective_checkpoint_contexts(lambda context, operator, *rest, **named: str(operator) in saved)


# %% right: bits_of_a_number
# Numbers all sets by bits.

def choose(operators, cap):
    names = sorted(operators)
    sets = []
    for bits in range(2 ** len(names)):
        chosen = {name for place, name in enumerate(names) if bits >> place & 1}
        if sum(operators[name]["bytes"] for name in chosen) <= cap:
            again = sum(operators[name]["seconds"] for name in names if name not in chosen)
            sets.append((again, bits, chosen))
    return min(sets)[2]


def contexts(saved):
    wanted = frozenset(saved)

    def decide(ctx, op, *inputs, **options):
        policies = {True: CheckpointPolicy.MUST_SAVE, False: CheckpointPolicy.MUST_RECOMPUTE}
        return policies[str(op) in wanted]

    def context_fn():
        return create_selective_checkpoint_contexts(decide)

    return context_fn


# %% right: table_of_bytes
# A table from bytes to the best set with so many bytes, extended by one operator at a time.

def choose(operators, cap):
    best = {0: (0.0, ())}
    for name, cost in operators.items():
        for used, (saved_seconds, names) in list(best.items()):
            total = used + cost["bytes"]
            candidate = saved_seconds + cost["seconds"], (*names, name)
            if total <= cap and candidate[0] > best.get(total, (-1.0,))[0]:
                best[total] = candidate
    return set(max(best.values())[1])


class Saving:
    def __init__(self, saved):
        self.saved = saved

    def policy(self, context, operator, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if str(operator) in self.saved else CheckpointPolicy.PREFER_RECOMPUTE

    def __call__(self):
        return create_selective_checkpoint_contexts(self.policy)


def contexts(saved):
    return Saving(set(saved))


# %% right: a_list_of_operators
# Gives PyTorch the list of operators, found by their names.

def choose(operators, cap):
    everything = list(operators.items())
    candidates = itertools.product((False, True), repeat=len(everything))

    def cost(flags):
        return sum(each["bytes"] for keep, (_, each) in zip(flags, everything) if keep)

    def gain(flags):
        return sum(each["seconds"] for keep, (_, each) in zip(flags, everything) if keep)

    winner = max(filter(lambda flags: cost(flags) <= cap, candidates), key=gain)
    return {name for keep, (name, _) in zip(winner, everything) if keep}


def contexts(saved):
    found = []
    for name in saved:
        library, operator, overload = name.split(".")
        found.append(getattr(getattr(getattr(torch.ops, library), operator), overload))
    return partial(create_selective_checkpoint_contexts, found)


# %% right: a_list
# Returns a list of names.

def choose(operators, cap):
    best = None
    for n in range(len(operators) + 1):
        for names in itertools.combinations(operators, n):
            if sum(operators[name]["bytes"] for name in names) <= cap:
                again = sum(cost["seconds"] for name, cost in operators.items() if name not in names)
                if best is None or again < best[0]:
                    best = again, set(names)
    return sorted(best[1])


def contexts(saved):
    def policy(context, operator, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if str(operator) in saved else CheckpointPolicy.MUST_RECOMPUTE

    return partial(create_selective_checkpoint_contexts, policy)
