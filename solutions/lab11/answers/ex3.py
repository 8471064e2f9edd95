# %% wrong: forward_order
# Fills the buckets from the first parameter on, whose gradient comes last.

def buckets(parameters, first, cap):
    found, current, limit = [], {}, {}
    for i, p in enumerate(parameters):
        if p.requires_grad:
            bucket = current.setdefault(p.dtype, [])
            bucket.append(i)
            if sum(parameters[k].nbytes for k in bucket) >= limit.get(p.dtype, first):
                found.append(current.pop(p.dtype))
                limit[p.dtype] = cap
    return found + list(current.values())


# %% wrong: turned_round_at_the_end
# Fills them from the first parameter on and turns the result round: the small bucket is last.

def buckets(parameters, first, cap):
    found, current, limit = [], {}, {}
    for i, p in enumerate(parameters):
        if p.requires_grad:
            bucket = current.setdefault(p.dtype, [])
            bucket.append(i)
            if sum(parameters[k].nbytes for k in bucket) >= limit.get(p.dtype, first):
                found.append(current.pop(p.dtype))
                limit[p.dtype] = cap
    return [bucket[::-1] for bucket in (found + list(current.values()))[::-1]]


# %% wrong: never_above_the_cap
# Begins a new bucket before the limit would be passed, as one packs a suitcase.

def buckets(parameters, first, cap):
    found, current, size, limit = [], {}, {}, {}
    for i in range(len(parameters) - 1, -1, -1):
        p = parameters[i]
        if not p.requires_grad:
            continue
        kind = p.dtype
        if current.get(kind) and size[kind] + p.nbytes > limit.get(kind, first):
            found.append(current.pop(kind))
            limit[kind] = cap
            size[kind] = 0
        current.setdefault(kind, []).append(i)
        size[kind] = size.get(kind, 0) + p.nbytes
    return found + list(current.values())


# %% wrong: more_than_the_limit
# Closes a bucket only when it has more than the limit.

def buckets(parameters, first, cap):
    found, current, limit = [], {}, {}
    for i in reversed(range(len(parameters))):
        p = parameters[i]
        if p.requires_grad:
            bucket = current.setdefault(p.dtype, [])
            bucket.append(i)
            if sum(parameters[k].nbytes for k in bucket) > limit.get(p.dtype, first):
                found.append(current.pop(p.dtype))
                limit[p.dtype] = cap
    return found + list(current.values())


# %% wrong: no_small_first
# Uses the cap for all buckets.

def buckets(parameters, first, cap):
    found, current = [], {}
    for i in reversed(range(len(parameters))):
        p = parameters[i]
        if p.requires_grad:
            bucket = current.setdefault(p.dtype, [])
            bucket.append(i)
            if sum(parameters[k].nbytes for k in bucket) >= cap:
                found.append(current.pop(p.dtype))
    return found + list(current.values())


# %% wrong: dtypes_together
# Puts halves and floats into one bucket, which has to be one tensor.

def buckets(parameters, first, cap):
    found, current, size, limit = [], [], 0, first
    for i in reversed(range(len(parameters))):
        if parameters[i].requires_grad:
            current.append(i)
            size += parameters[i].numel() * parameters[i].element_size()
            if size >= limit:
                found.append(current)
                current, size, limit = [], 0, cap
    return found + [current] if current else found


# %% wrong: closed_by_another_dtype
# Closes the bucket where the next parameter has another dtype.

def buckets(parameters, first, cap):
    found, current, limit = [], [], first
    for i in reversed(range(len(parameters))):
        p = parameters[i]
        if not p.requires_grad:
            continue
        if current and parameters[current[0]].dtype != p.dtype:
            found.append(current)
            current, limit = [], cap
        current.append(i)
        if sum(parameters[k].nbytes for k in current) >= limit:
            found.append(current)
            current, limit = [], cap
    return found + [current] if current else found


# %% wrong: one_small_bucket_in_all
# Gives the small limit to the very first bucket only, and not to the first of each dtype.

def buckets(parameters, first, cap):
    found, current = [], {}
    for i in reversed(range(len(parameters))):
        p = parameters[i]
        if p.requires_grad:
            bucket = current.setdefault(p.dtype, [])
            bucket.append(i)
            if sum(parameters[k].nbytes for k in bucket) >= (cap if found else first):
                found.append(current.pop(p.dtype))
    return found + list(current.values())


# %% wrong: numbers_for_bytes
# Counts numbers, and the limits are in bytes.

def buckets(parameters, first, cap):
    found, current, limit = [], {}, {}
    for i in reversed(range(len(parameters))):
        p = parameters[i]
        if p.requires_grad:
            bucket = current.setdefault(p.dtype, [])
            bucket.append(i)
            if sum(parameters[k].numel() for k in bucket) >= limit.get(p.dtype, first):
                found.append(current.pop(p.dtype))
                limit[p.dtype] = cap
    return found + list(current.values())


# %% wrong: frozen_ones_wait
# Takes in parameters that never get a gradient: their bucket is never complete.

def buckets(parameters, first, cap):
    found, current, limit = [], {}, {}
    for i in reversed(range(len(parameters))):
        p = parameters[i]
        bucket = current.setdefault(p.dtype, [])
        bucket.append(i)
        if sum(parameters[k].nbytes for k in bucket) >= limit.get(p.dtype, first):
            found.append(current.pop(p.dtype))
            limit[p.dtype] = cap
    return found + list(current.values())


# %% wrong: last_one_lost
# Returns the full buckets, and forgets the one that never got full.

def buckets(parameters, first, cap):
    found, current, limit = [], {}, {}
    for i in reversed(range(len(parameters))):
        p = parameters[i]
        if p.requires_grad:
            bucket = current.setdefault(p.dtype, [])
            bucket.append(i)
            if sum(parameters[k].nbytes for k in bucket) >= limit.get(p.dtype, first):
                found.append(current.pop(p.dtype))
                limit[p.dtype] = cap
    return found


# %% wrong: four_bytes_each
# Takes 4 bytes for each number, whatever the dtype.

def buckets(parameters, first, cap):
    full, filling, limits = [], {}, {}
    for index in reversed(range(len(parameters))):
        dtype = parameters[index].dtype
        if parameters[index].requires_grad:
            bucket = filling.setdefault(dtype, [])
            bucket.append(index)
            if sum(4 * parameters[each].numel() for each in bucket) >= limits.get(dtype, first):
                full.append(filling.pop(dtype))
                limits[dtype] = cap
    return full + list(filling.values())


# %% right: sizes_counted
# Keeps the size of each open bucket.

def buckets(parameters, first, cap):
    full, open_, sizes, limits = [], {}, {}, {}
    for number, p in reversed(list(enumerate(parameters))):
        if not p.requires_grad:
            continue
        open_.setdefault(p.dtype, []).append(number)
        sizes[p.dtype] = sizes.get(p.dtype, 0) + p.numel() * p.element_size()
        if sizes[p.dtype] >= limits.get(p.dtype, first):
            full.append(open_.pop(p.dtype))
            sizes[p.dtype], limits[p.dtype] = 0, cap
    return full + list(open_.values())


# %% right: by_dtype
# Makes the buckets of each dtype by themselves, and puts them in order afterwards.

def buckets(parameters, first, cap):
    order = [i for i in reversed(range(len(parameters))) if parameters[i].requires_grad]
    full, rest = [], []
    for dtype in {parameters[i].dtype for i in order}:
        bucket, limit = [], first
        for i in order:
            if parameters[i].dtype == dtype:
                bucket.append(i)
                if sum(parameters[j].nbytes for j in bucket) >= limit:
                    full.append(bucket)
                    bucket, limit = [], cap
        if bucket:
            rest.append(bucket)
    return sorted(full, key=lambda b: -b[-1]) + sorted(rest, key=lambda b: -b[0])


# %% right: with_a_class
# A small class for a bucket, and tuples in the answer.

class Bucket:
    def __init__(self, limit):
        self.limit, self.bytes, self.members = limit, 0, []


def buckets(parameters, first, cap):
    growing, done = {}, []
    for index in range(len(parameters) - 1, -1, -1):
        p = parameters[index]
        if p.requires_grad is False:
            continue
        if p.dtype not in growing:
            growing[p.dtype] = Bucket(cap if any(parameters[d[0]].dtype == p.dtype for d in done) else first)
        bucket = growing[p.dtype]
        bucket.members.append(index)
        bucket.bytes += p.nbytes
        if bucket.bytes >= bucket.limit:
            done.append(tuple(bucket.members))
            del growing[p.dtype]
    return done + [tuple(b.members) for b in growing.values()]


# %% wrong: open_buckets_by_dtype
# Lists the buckets that never become full by dtype, in the order in which the dtypes first came.

def buckets(parameters, first, cap):
    full, filling, limits = [], {}, {}
    for index in reversed(range(len(parameters))):
        dtype = parameters[index].dtype
        if not parameters[index].requires_grad:
            continue
        bucket = filling.setdefault(dtype, [])
        bucket.append(index)
        if sum(parameters[each].nbytes for each in bucket) >= limits.get(dtype, first):
            full.append(bucket)
            filling[dtype] = []
            limits[dtype] = cap
    return full + [bucket for bucket in filling.values() if bucket]
