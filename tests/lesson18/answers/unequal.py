# %% wrong: shards_too
# Takes shards for replicas.

def unequal(gradients, sharded):
    return [name for name in gradients[0] if any(not torch.equal(gradients[0][name], g[name]) for g in gradients[1:])]


# %% wrong: first_two
# Compares the first two ranks only.

def unequal(gradients, sharded):
    a, b = gradients[:2]
    return [name for name in a if name not in sharded and not torch.equal(a[name], b[name])]


# %% wrong: sums
# Compares sums, rounded.

def unequal(gradients, sharded):
    first = gradients[0]
    return [
        name
        for name in first
        if name not in sharded and any(round(first[name].sum().item()) != round(g[name].sum().item()) for g in gradients)
    ]


# %% wrong: equal_ones
# Returns those that are equal.

def unequal(gradients, sharded):
    first = gradients[0]
    return [n for n in first if n not in sharded and all(torch.equal(first[n], g[n]) for g in gradients)]


# %% wrong: nearly_equal
# Takes what is close for equal.

def unequal(gradients, sharded):
    first = gradients[0]
    return [n for n in first if n not in sharded and not all(torch.allclose(first[n], g[n]) for g in gradients)]


# %% wrong: norms
# Compares norms. Other numbers can have the same.

def unequal(gradients, sharded):
    first = gradients[0]
    return [n for n in first if n not in sharded and any(first[n].norm() != g[n].norm() for g in gradients)]


# %% wrong: two_and_two
# Compares rank 0 with 1 and rank 2 with 3.

def unequal(gradients, sharded):
    pairs = list(zip(gradients[::2], gradients[1::2]))
    return [n for n in gradients[0] if n not in sharded and any(not torch.equal(a[n], b[n]) for a, b in pairs)]


# %% right: pairs
# Compares neighbours.

def unequal(gradients, sharded):
    found = []
    for name in gradients[0]:
        if name in sharded:
            continue
        for a, b in zip(gradients, gradients[1:]):
            if not torch.equal(a[name], b[name]):
                found.append(name)
                break
    return found


# %% right: a_set
# Returns a set.

def unequal(gradients, sharded):
    return {n for n in gradients[0].keys() - sharded if any((g[n] != gradients[0][n]).any() for g in gradients)}
