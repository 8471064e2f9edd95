# %% wrong: contiguous
# Gives each rank tokens in a row, so the last rank has the most work.

def rank_inputs(tokens, cos, sin, rank, ranks):
    chunks = torch.arange(tokens.shape[1] - 1).chunk(2 * ranks)
    each = (tokens.shape[1] - 1) // ranks
    positions = torch.arange(rank * each, (rank + 1) * each)
    return tokens[:, positions], tokens[:, positions + 1], positions, cos[positions], sin[positions]


def visible(rank, owner, ranks, length):
    each = length // ranks
    if owner == rank:
        return slice(0, each), slice(0, each), torch.ones(each, each, dtype=torch.bool).tril()
    if owner < rank:
        return slice(0, each), slice(0, each // 2), None
    return slice(each // 2, each), slice(0, each), None


def in_order(parts, dim):
    halves = [part.chunk(2, dim) for part in parts]
    return torch.cat([one for one, _ in halves] + [two for _, two in halves[::-1]], dim)


# %% wrong: chunk_r_and_r_plus_p
# Pairs chunk r with chunk r + P, so the work still grows with the rank.

def rank_inputs(tokens, cos, sin, rank, ranks):
    chunks = torch.arange(tokens.shape[1] - 1).chunk(2 * ranks)
    positions = torch.cat([chunks[rank], chunks[ranks + rank]])
    return tokens[:, positions], tokens[:, positions + 1], positions, cos[positions], sin[positions]


def visible(rank, owner, ranks, length):
    each = length // ranks
    if owner == rank:
        return slice(0, each), slice(0, each), torch.ones(each, each, dtype=torch.bool).tril()
    if owner < rank:
        return slice(0, each), slice(0, each // 2), None
    return slice(each // 2, each), slice(0, each), None


def in_order(parts, dim):
    halves = [part.chunk(2, dim) for part in parts]
    return torch.cat([one for one, _ in halves] + [two for _, two in halves[::-1]], dim)


# %% wrong: late_chunk_first
# Puts the late chunk first.

def rank_inputs(tokens, cos, sin, rank, ranks):
    chunks = torch.arange(tokens.shape[1] - 1).chunk(2 * ranks)
    positions = torch.cat([chunks[2 * ranks - 1 - rank], chunks[rank]])
    return tokens[:, positions], tokens[:, positions + 1], positions, cos[positions], sin[positions]


def visible(rank, owner, ranks, length):
    each = length // ranks
    if owner == rank:
        return slice(0, each), slice(0, each), torch.ones(each, each, dtype=torch.bool).tril()
    if owner < rank:
        return slice(0, each), slice(0, each // 2), None
    return slice(each // 2, each), slice(0, each), None


def in_order(parts, dim):
    halves = [part.chunk(2, dim) for part in parts]
    return torch.cat([one for one, _ in halves] + [two for _, two in halves[::-1]], dim)


# %% wrong: every_pth_token
# Deals single tokens out, one to each rank in turn.

def rank_inputs(tokens, cos, sin, rank, ranks):
    chunks = torch.arange(tokens.shape[1] - 1).chunk(2 * ranks)
    positions = torch.arange(rank, tokens.shape[1] - 1, ranks)
    return tokens[:, positions], tokens[:, positions + 1], positions, cos[positions], sin[positions]


def visible(rank, owner, ranks, length):
    each = length // ranks
    if owner == rank:
        return slice(0, each), slice(0, each), torch.ones(each, each, dtype=torch.bool).tril()
    if owner < rank:
        return slice(0, each), slice(0, each // 2), None
    return slice(each // 2, each), slice(0, each), None


def in_order(parts, dim):
    halves = [part.chunk(2, dim) for part in parts]
    return torch.cat([one for one, _ in halves] + [two for _, two in halves[::-1]], dim)


# %% wrong: positions_forgotten
# Shards the tokens and counts positions from 0 on each rank.

def rank_inputs(tokens, cos, sin, rank, ranks):
    chunks = torch.arange(tokens.shape[1] - 1).chunk(2 * ranks)
    positions = torch.cat([chunks[rank], chunks[2 * ranks - 1 - rank]])
    own = torch.arange(len(positions))
    return tokens[:, positions], tokens[:, positions + 1], own, cos[own], sin[own]


def visible(rank, owner, ranks, length):
    each = length // ranks
    if owner == rank:
        return slice(0, each), slice(0, each), torch.ones(each, each, dtype=torch.bool).tril()
    if owner < rank:
        return slice(0, each), slice(0, each // 2), None
    return slice(each // 2, each), slice(0, each), None


def in_order(parts, dim):
    halves = [part.chunk(2, dim) for part in parts]
    return torch.cat([one for one, _ in halves] + [two for _, two in halves[::-1]], dim)


# %% wrong: rotary_forgotten
# Returns the right positions, but the first rows of the rotary tables.

def rank_inputs(tokens, cos, sin, rank, ranks):
    chunks = torch.arange(tokens.shape[1] - 1).chunk(2 * ranks)
    positions = torch.cat([chunks[rank], chunks[2 * ranks - 1 - rank]])
    return tokens[:, positions], tokens[:, positions + 1], positions, cos[: len(positions)], sin[: len(positions)]


def visible(rank, owner, ranks, length):
    each = length // ranks
    if owner == rank:
        return slice(0, each), slice(0, each), torch.ones(each, each, dtype=torch.bool).tril()
    if owner < rank:
        return slice(0, each), slice(0, each // 2), None
    return slice(each // 2, each), slice(0, each), None


def in_order(parts, dim):
    halves = [part.chunk(2, dim) for part in parts]
    return torch.cat([one for one, _ in halves] + [two for _, two in halves[::-1]], dim)


# %% wrong: labels_from_the_shard
# Shifts the shard by one to get labels: where a chunk ends, the label is wrong.

def rank_inputs(tokens, cos, sin, rank, ranks):
    chunks = torch.arange(tokens.shape[1] - 1).chunk(2 * ranks)
    positions = torch.cat([chunks[rank], chunks[2 * ranks - 1 - rank]])
    return tokens[:, positions], torch.cat([tokens[:, positions[1:]], tokens[:, positions[-1:] + 1]], 1), positions, cos[positions], sin[positions]


def visible(rank, owner, ranks, length):
    each = length // ranks
    if owner == rank:
        return slice(0, each), slice(0, each), torch.ones(each, each, dtype=torch.bool).tril()
    if owner < rank:
        return slice(0, each), slice(0, each // 2), None
    return slice(each // 2, each), slice(0, each), None


def in_order(parts, dim):
    halves = [part.chunk(2, dim) for part in parts]
    return torch.cat([one for one, _ in halves] + [two for _, two in halves[::-1]], dim)


# %% wrong: labels_are_the_inputs
# Forgets that the label is the next token.

def rank_inputs(tokens, cos, sin, rank, ranks):
    chunks = torch.arange(tokens.shape[1] - 1).chunk(2 * ranks)
    positions = torch.cat([chunks[rank], chunks[2 * ranks - 1 - rank]])
    return tokens[:, positions], tokens[:, positions], positions, cos[positions], sin[positions]


def visible(rank, owner, ranks, length):
    each = length // ranks
    if owner == rank:
        return slice(0, each), slice(0, each), torch.ones(each, each, dtype=torch.bool).tril()
    if owner < rank:
        return slice(0, each), slice(0, each // 2), None
    return slice(each // 2, each), slice(0, each), None


def in_order(parts, dim):
    halves = [part.chunk(2, dim) for part in parts]
    return torch.cat([one for one, _ in halves] + [two for _, two in halves[::-1]], dim)


# %% wrong: length_with_the_last_token
# Cuts the tokens with the last one, which is a label only.

def rank_inputs(tokens, cos, sin, rank, ranks):
    chunks = torch.arange(tokens.shape[1]).tensor_split(2 * ranks)
    positions = torch.cat([chunks[rank], chunks[2 * ranks - 1 - rank]])
    return tokens[:, positions], tokens[:, (positions + 1).clamp(max=tokens.shape[1] - 1)], positions, cos[positions.clamp(max=len(cos) - 1)], sin[positions.clamp(max=len(sin) - 1)]


def visible(rank, owner, ranks, length):
    each = length // ranks
    if owner == rank:
        return slice(0, each), slice(0, each), torch.ones(each, each, dtype=torch.bool).tril()
    if owner < rank:
        return slice(0, each), slice(0, each // 2), None
    return slice(each // 2, each), slice(0, each), None


def in_order(parts, dim):
    halves = [part.chunk(2, dim) for part in parts]
    return torch.cat([one for one, _ in halves] + [two for _, two in halves[::-1]], dim)


# %% wrong: everything_with_a_mask
# Computes all pairs and masks them, so the ranks have equal but twice the work.

def rank_inputs(tokens, cos, sin, rank, ranks):
    chunks = torch.arange(tokens.shape[1] - 1).chunk(2 * ranks)
    positions = torch.cat([chunks[rank], chunks[2 * ranks - 1 - rank]])
    return tokens[:, positions], tokens[:, positions + 1], positions, cos[positions], sin[positions]


def visible(rank, owner, ranks, length):
    def positions(one):
        chunks = torch.arange(length).chunk(2 * ranks)
        return torch.cat([chunks[one], chunks[2 * ranks - 1 - one]])

    each = length // ranks
    return slice(0, each), slice(0, each), positions(rank)[:, None] >= positions(owner)[None]


def in_order(parts, dim):
    halves = [part.chunk(2, dim) for part in parts]
    return torch.cat([one for one, _ in halves] + [two for _, two in halves[::-1]], dim)


# %% wrong: causal_in_each_block
# Takes the causal mask of the own block for every block.

def rank_inputs(tokens, cos, sin, rank, ranks):
    chunks = torch.arange(tokens.shape[1] - 1).chunk(2 * ranks)
    positions = torch.cat([chunks[rank], chunks[2 * ranks - 1 - rank]])
    return tokens[:, positions], tokens[:, positions + 1], positions, cos[positions], sin[positions]


def visible(rank, owner, ranks, length):
    each = length // ranks
    return slice(0, each), slice(0, each), torch.ones(each, each, dtype=torch.bool).tril()


def in_order(parts, dim):
    halves = [part.chunk(2, dim) for part in parts]
    return torch.cat([one for one, _ in halves] + [two for _, two in halves[::-1]], dim)


# %% wrong: as_with_contiguous_chunks
# Thinks as with chunks in a row: all of an earlier rank, nothing of a later one.

def rank_inputs(tokens, cos, sin, rank, ranks):
    chunks = torch.arange(tokens.shape[1] - 1).chunk(2 * ranks)
    positions = torch.cat([chunks[rank], chunks[2 * ranks - 1 - rank]])
    return tokens[:, positions], tokens[:, positions + 1], positions, cos[positions], sin[positions]


def visible(rank, owner, ranks, length):
    each = length // ranks
    if owner == rank:
        return slice(0, each), slice(0, each), torch.ones(each, each, dtype=torch.bool).tril()
    if owner < rank:
        return slice(0, each), slice(0, each), None
    return slice(0, 0), slice(0, 0), None


def in_order(parts, dim):
    halves = [part.chunk(2, dim) for part in parts]
    return torch.cat([one for one, _ in halves] + [two for _, two in halves[::-1]], dim)


# %% wrong: own_block_without_a_mask
# Lets all queries see all keys of their own block.

def rank_inputs(tokens, cos, sin, rank, ranks):
    chunks = torch.arange(tokens.shape[1] - 1).chunk(2 * ranks)
    positions = torch.cat([chunks[rank], chunks[2 * ranks - 1 - rank]])
    return tokens[:, positions], tokens[:, positions + 1], positions, cos[positions], sin[positions]


def visible(rank, owner, ranks, length):
    each = length // ranks
    if owner == rank:
        return slice(0, each), slice(0, each), None
    if owner < rank:
        return slice(0, each), slice(0, each // 2), None
    return slice(each // 2, each), slice(0, each), None


def in_order(parts, dim):
    halves = [part.chunk(2, dim) for part in parts]
    return torch.cat([one for one, _ in halves] + [two for _, two in halves[::-1]], dim)


# %% wrong: mask_says_what_is_hidden
# Thinks that True in the mask hides a key.

def rank_inputs(tokens, cos, sin, rank, ranks):
    chunks = torch.arange(tokens.shape[1] - 1).chunk(2 * ranks)
    positions = torch.cat([chunks[rank], chunks[2 * ranks - 1 - rank]])
    return tokens[:, positions], tokens[:, positions + 1], positions, cos[positions], sin[positions]


def visible(rank, owner, ranks, length):
    each = length // ranks
    if owner == rank:
        return slice(0, each), slice(0, each), torch.ones(each, each, dtype=torch.bool).triu(1)
    if owner < rank:
        return slice(0, each), slice(0, each // 2), None
    return slice(each // 2, each), slice(0, each), None


def in_order(parts, dim):
    halves = [part.chunk(2, dim) for part in parts]
    return torch.cat([one for one, _ in halves] + [two for _, two in halves[::-1]], dim)


# %% wrong: not_itself
# Hides a query's own position.

def rank_inputs(tokens, cos, sin, rank, ranks):
    chunks = torch.arange(tokens.shape[1] - 1).chunk(2 * ranks)
    positions = torch.cat([chunks[rank], chunks[2 * ranks - 1 - rank]])
    return tokens[:, positions], tokens[:, positions + 1], positions, cos[positions], sin[positions]


def visible(rank, owner, ranks, length):
    each = length // ranks
    if owner == rank:
        return slice(0, each), slice(0, each), torch.ones(each, each, dtype=torch.bool).tril(-1)
    if owner < rank:
        return slice(0, each), slice(0, each // 2), None
    return slice(each // 2, each), slice(0, each), None


def in_order(parts, dim):
    halves = [part.chunk(2, dim) for part in parts]
    return torch.cat([one for one, _ in halves] + [two for _, two in halves[::-1]], dim)


# %% wrong: rows_and_columns_swapped
# Takes owner for rank: halves queries where keys are to be halved.

def rank_inputs(tokens, cos, sin, rank, ranks):
    chunks = torch.arange(tokens.shape[1] - 1).chunk(2 * ranks)
    positions = torch.cat([chunks[rank], chunks[2 * ranks - 1 - rank]])
    return tokens[:, positions], tokens[:, positions + 1], positions, cos[positions], sin[positions]


def visible(rank, owner, ranks, length):
    each = length // ranks
    if owner == rank:
        return slice(0, each), slice(0, each), torch.ones(each, each, dtype=torch.bool).tril()
    if owner < rank:
        return slice(each // 2, each), slice(0, each), None
    return slice(0, each), slice(0, each // 2), None


def in_order(parts, dim):
    halves = [part.chunk(2, dim) for part in parts]
    return torch.cat([one for one, _ in halves] + [two for _, two in halves[::-1]], dim)


# %% wrong: joined_rank_by_rank
# Joins the parts rank by rank.

def rank_inputs(tokens, cos, sin, rank, ranks):
    chunks = torch.arange(tokens.shape[1] - 1).chunk(2 * ranks)
    positions = torch.cat([chunks[rank], chunks[2 * ranks - 1 - rank]])
    return tokens[:, positions], tokens[:, positions + 1], positions, cos[positions], sin[positions]


def visible(rank, owner, ranks, length):
    each = length // ranks
    if owner == rank:
        return slice(0, each), slice(0, each), torch.ones(each, each, dtype=torch.bool).tril()
    if owner < rank:
        return slice(0, each), slice(0, each // 2), None
    return slice(each // 2, each), slice(0, each), None


def in_order(parts, dim):
    return torch.cat(parts, dim)


# %% wrong: second_halves_not_reversed
# Joins all first halves and then all second ones in the order of the ranks.

def rank_inputs(tokens, cos, sin, rank, ranks):
    chunks = torch.arange(tokens.shape[1] - 1).chunk(2 * ranks)
    positions = torch.cat([chunks[rank], chunks[2 * ranks - 1 - rank]])
    return tokens[:, positions], tokens[:, positions + 1], positions, cos[positions], sin[positions]


def visible(rank, owner, ranks, length):
    each = length // ranks
    if owner == rank:
        return slice(0, each), slice(0, each), torch.ones(each, each, dtype=torch.bool).tril()
    if owner < rank:
        return slice(0, each), slice(0, each // 2), None
    return slice(each // 2, each), slice(0, each), None


def in_order(parts, dim):
    halves = [part.chunk(2, dim) for part in parts]
    return torch.cat([one for one, _ in halves] + [two for _, two in halves], dim)


# %% wrong: always_along_dimension_1
# Joins along dimension 1, whatever dim is.

def rank_inputs(tokens, cos, sin, rank, ranks):
    chunks = torch.arange(tokens.shape[1] - 1).chunk(2 * ranks)
    positions = torch.cat([chunks[rank], chunks[2 * ranks - 1 - rank]])
    return tokens[:, positions], tokens[:, positions + 1], positions, cos[positions], sin[positions]


def visible(rank, owner, ranks, length):
    each = length // ranks
    if owner == rank:
        return slice(0, each), slice(0, each), torch.ones(each, each, dtype=torch.bool).tril()
    if owner < rank:
        return slice(0, each), slice(0, each // 2), None
    return slice(each // 2, each), slice(0, each), None


def in_order(parts, dim):
    halves = [part.chunk(2, 1) for part in parts]
    return torch.cat([one for one, _ in halves] + [two for _, two in halves[::-1]], 1)


# %% wrong: sequence_never_first
# Thinks that a sequence is dimension 1 or 2, and never dimension 0.

def rank_inputs(tokens, cos, sin, rank, ranks):
    chunks = torch.arange(tokens.shape[1] - 1).chunk(2 * ranks)
    positions = torch.cat([chunks[rank], chunks[2 * ranks - 1 - rank]])
    return tokens[:, positions], tokens[:, positions + 1], positions, cos[positions], sin[positions]


def visible(rank, owner, ranks, length):
    each = length // ranks
    if owner == rank:
        return slice(0, each), slice(0, each), torch.ones(each, each, dtype=torch.bool).tril()
    if owner < rank:
        return slice(0, each), slice(0, each // 2), None
    return slice(each // 2, each), slice(0, each), None


def in_order(parts, dim):
    halves = [part.chunk(2, dim) for part in parts]
    chunks = [one for one, _ in halves] + [two for _, two in reversed(halves)]
    return torch.cat(chunks, 2) if dim == 2 else torch.cat(chunks, 1)


# %% right: by_positions
# Indexes and masks by positions, and sorts by them at the end.

def positions_of(rank, ranks, length):
    size = length // (2 * ranks)
    steps = torch.arange(size)
    return torch.cat([rank * size + steps, (2 * ranks - 1 - rank) * size + steps])


def rank_inputs(tokens, cos, sin, rank, ranks):
    inputs, labels = tokens[:, :-1], tokens[:, 1:]
    mine = positions_of(rank, ranks, inputs.shape[1])
    return [inputs[:, mine], labels[:, mine], mine, cos.index_select(0, mine), sin.index_select(0, mine)]


def visible(rank, owner, ranks, length):
    allowed = positions_of(rank, ranks, length)[:, None] >= positions_of(owner, ranks, length)
    half = length // ranks // 2
    rows = slice(half if owner > rank else 0, None)
    columns = slice(None, half if owner < rank else None)
    return rows, columns, allowed[rows, columns]


def in_order(parts, dim):
    ranks = len(parts)
    whole = torch.cat(parts, dim)
    places = torch.cat([positions_of(rank, ranks, whole.shape[dim]) for rank in range(ranks)])
    return whole.index_select(dim, places.argsort())


# %% right: in_place_of_an_empty_tensor
# Fills an empty tensor, and slices that are as small as they can be.

def rank_inputs(tokens, cos, sin, rank, ranks):
    chunks = torch.arange(tokens.size(1) - 1).reshape(2 * ranks, -1)
    positions = torch.cat([chunks[rank], chunks[-rank - 1]])
    return tokens[:, positions], tokens[:, positions + 1], positions, cos[positions], sin[positions]


def visible(rank, owner, ranks, length):
    each = length // ranks
    if owner == rank:
        return slice(0, each), slice(0, each), torch.ones(each, each, dtype=torch.bool).tril()
    if owner < rank:
        return slice(0, each), slice(0, each // 2), torch.ones(each, each // 2).bool()
    return slice(each // 2, each), slice(0, each), None


def in_order(parts, dim):
    ranks, shape = len(parts), list(parts[0].shape)
    half = shape[dim] // 2
    shape[dim] *= ranks
    whole = parts[0].new_empty(shape)
    for rank, part in enumerate(parts):
        whole.narrow(dim, rank * half, half).copy_(part.narrow(dim, 0, half))
        whole.narrow(dim, (2 * ranks - 1 - rank) * half, half).copy_(part.narrow(dim, half, half))
    return whole
