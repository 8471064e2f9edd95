# %% wrong: own_keys_only
# Attends to its own block and passes nothing on.

def ring_attention(q, k, v, attend, merge):
    import torch.distributed as dist

    return attend(q, k, v, dist.get_rank())[0]


# %% wrong: waits_before_it_attends
# Right, but nothing is computed while the messages travel.

def ring_attention(q, k, v, attend, merge):
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    out, lse = attend(q, k, v, rank)
    now = torch.stack((k, v))
    for step in range(1, count):
        coming = torch.empty_like(now)
        send = dist.P2POp(dist.isend, now, (rank + 1) % count)
        receive = dist.P2POp(dist.irecv, coming, (rank - 1) % count)
        for work in dist.batch_isend_irecv([send, receive]):
            work.wait()
        now = coming
        out, lse = merge(out, lse, *attend(q, now[0], now[1], (rank - step) % count))
    return out


# %% wrong: sends_once_too_often
# The last message brings back a rank's own keys and values.

def ring_attention(q, k, v, attend, merge):
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    now, out = torch.stack((k, v)), None
    for step in range(count):
        coming = torch.empty_like(now)
        send = dist.P2POp(dist.isend, now, (rank + 1) % count)
        receive = dist.P2POp(dist.irecv, coming, (rank - 1) % count)
        works = dist.batch_isend_irecv([send, receive])
        block = attend(q, now[0], now[1], (rank - step) % count)
        out, lse = block if out is None else merge(out, lse, *block)
        for work in works:
            work.wait()
        now = coming
    return out


# %% wrong: source_the_other_way
# Receives from rank - 1, but says that the keys are those of rank + step.

def ring_attention(q, k, v, attend, merge):
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    now, out = torch.stack((k, v)), None
    for step in range(count):
        if step < count - 1:
            coming = torch.empty_like(now)
            send = dist.P2POp(dist.isend, now, (rank + 1) % count)
            receive = dist.P2POp(dist.irecv, coming, (rank - 1) % count)
            works = dist.batch_isend_irecv([send, receive])
        block = attend(q, now[0], now[1], (rank + step) % count)
        out, lse = block if out is None else merge(out, lse, *block)
        if step < count - 1:
            for work in works:
                work.wait()
            now = coming
    return out


# %% wrong: source_is_the_neighbor
# Every block is said to come from the rank that sent it, not from the rank that owns it.

def ring_attention(q, k, v, attend, merge):
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    now, out = torch.stack((k, v)), None
    for step in range(count):
        if step < count - 1:
            coming = torch.empty_like(now)
            send = dist.P2POp(dist.isend, now, (rank + 1) % count)
            receive = dist.P2POp(dist.irecv, coming, (rank - 1) % count)
            works = dist.batch_isend_irecv([send, receive])
        block = attend(q, now[0], now[1], (rank - 1) % count if step else rank)
        out, lse = block if out is None else merge(out, lse, *block)
        if step < count - 1:
            for work in works:
                work.wait()
            now = coming
    return out


# %% wrong: last_block_only
# Replaces the output in each step instead of merging it.

def ring_attention(q, k, v, attend, merge):
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    now = torch.stack((k, v))
    for step in range(count):
        if step < count - 1:
            coming = torch.empty_like(now)
            send = dist.P2POp(dist.isend, now, (rank + 1) % count)
            receive = dist.P2POp(dist.irecv, coming, (rank - 1) % count)
            works = dist.batch_isend_irecv([send, receive])
        out, lse = attend(q, now[0], now[1], (rank - step) % count)
        if step < count - 1:
            for work in works:
                work.wait()
            now = coming
    return out


# %% wrong: does_not_wait
# Attends to a tensor that has not arrived yet.

def ring_attention(q, k, v, attend, merge):
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    now, out = torch.stack((k, v)), None
    for step in range(count):
        if step < count - 1:
            coming = torch.zeros_like(now)
            send = dist.P2POp(dist.isend, now, (rank + 1) % count)
            receive = dist.P2POp(dist.irecv, coming, (rank - 1) % count)
            dist.batch_isend_irecv([send, receive])
        block = attend(q, now[0], now[1], (rank - step) % count)
        out, lse = block if out is None else merge(out, lse, *block)
        if step < count - 1:
            now = coming
    return out


# %% wrong: receives_into_what_it_sends
# One buffer for both: what arrives may overwrite what is still being sent, and what attend still reads.

def ring_attention(q, k, v, attend, merge):
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    now, out = torch.stack((k, v)), None
    for step in range(count):
        if step < count - 1:
            send = dist.P2POp(dist.isend, now, (rank + 1) % count)
            receive = dist.P2POp(dist.irecv, now, (rank - 1) % count)
            works = dist.batch_isend_irecv([send, receive])
        block = attend(q, now[0], now[1], (rank - step) % count)
        out, lse = block if out is None else merge(out, lse, *block)
        if step < count - 1:
            for work in works:
                work.wait()
    return out


# %% wrong: all_receive_first
# Blocking calls, in the same order on each rank: a deadlock.

def ring_attention(q, k, v, attend, merge):
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    out, lse = attend(q, k, v, rank)
    now = torch.stack((k, v))
    for step in range(1, count):
        coming = torch.empty_like(now)
        dist.recv(coming, (rank - 1) % count)
        dist.send(now, (rank + 1) % count)
        now = coming
        out, lse = merge(out, lse, *attend(q, now[0], now[1], (rank - step) % count))
    return out


# %% wrong: returns_a_pair
# Returns the log-sum-exp, too.

def ring_attention(q, k, v, attend, merge):
    import torch.distributed as dist

    return attend(q, k, v, dist.get_rank())


# %% right: two_messages
# Keys and values in two messages each way, and to the previous rank.

def ring_attention(q, k, v, attend, merge):
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    here, there = (rank - 1) % count, (rank + 1) % count
    k, v = k.contiguous(), v.contiguous()
    result = None
    for step in range(count):
        works = []
        if step < count - 1:
            k2, v2 = torch.empty_like(k), torch.empty_like(v)
            works = dist.batch_isend_irecv(
                [dist.P2POp(dist.isend, x, here) for x in (k, v)] + [dist.P2POp(dist.irecv, x, there) for x in (k2, v2)]
            )
        block = attend(q, k, v, (rank + step) % count)
        result = block if result is None else merge(*result, *block)
        for work in works:
            work.wait()
        if works:
            k, v = k2, v2
    return result[0]


# %% right: collected_then_merged
# Merges after the loop.

def ring_attention(q, k, v, attend, merge):
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    now, blocks = torch.cat((k, v)), []
    for step in range(count):
        if step < count - 1:
            coming = torch.empty_like(now)
            works = dist.batch_isend_irecv([
                dist.P2POp(dist.isend, now, (rank + 1) % count), dist.P2POp(dist.irecv, coming, (rank - 1) % count)
            ])
        blocks.append(attend(q, *now.chunk(2), (rank - step) % count))
        if step < count - 1:
            [work.wait() for work in works]
            now = coming
    out, lse = blocks[0]
    for block in blocks[1:]:
        out, lse = merge(out, lse, *block)
    return out
