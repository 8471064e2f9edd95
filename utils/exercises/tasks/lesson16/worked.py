"""Lesson 16: working versions of its tasks."""

import torch
import torch.distributed as dist


def merge(out, lse, out2, lse2):
    both = torch.logaddexp(lse, lse2)
    return out * (lse - both).exp() + out2 * (lse2 - both).exp(), both


def ring_attention(q, k, v, attend, merge):
    rank, count = dist.get_rank(), dist.get_world_size()
    now, done = torch.stack((k, v)), []  # the output and log-sum-exp of all blocks until now
    for step in range(count):
        coming, works = torch.empty_like(now), []
        if step < count - 1:
            send = dist.P2POp(dist.isend, now, (rank + 1) % count)
            receive = dist.P2POp(dist.irecv, coming, (rank - 1) % count)
            works = dist.batch_isend_irecv([send, receive])
        block = attend(q, *now, (rank - step) % count)
        done = merge(*done, *block) if done else block
        for work in works:
            work.wait()
        now = coming
    return done[0]
