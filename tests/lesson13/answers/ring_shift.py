# %% wrong: all_send_first
# A send waits for its receive, and everyone is in its send.


def ring_shift(tensor):
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    received = torch.empty_like(tensor)
    dist.send(tensor, (rank + 1) % count)
    dist.recv(received, (rank - 1) % count)
    return received


# %% wrong: all_receive_first
# The other way around.


def ring_shift(tensor):
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    received = torch.empty_like(tensor)
    dist.recv(received, (rank - 1) % count)
    dist.send(tensor, (rank + 1) % count)
    return received


# %% wrong: the_other_direction
# Sends to the rank before.


def ring_shift(tensor):
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    received = torch.empty_like(tensor)
    both = [
        dist.P2POp(dist.isend, tensor, (rank - 1) % count),
        dist.P2POp(dist.irecv, received, (rank + 1) % count),
    ]
    for work in dist.batch_isend_irecv(both):
        work.wait()
    return received


# %% wrong: no_ring
# Forgets that the last rank's next is rank 0.


def ring_shift(tensor):
    import torch.distributed as dist

    rank = dist.get_rank()
    received = torch.empty_like(tensor)
    both = [dist.P2POp(dist.isend, tensor, rank + 1), dist.P2POp(dist.irecv, received, rank - 1)]
    for work in dist.batch_isend_irecv(both):
        work.wait()
    return received


# %% wrong: into_its_own_tensor
# Receives into what it sends.


def ring_shift(tensor):
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    mine = tensor.clone()
    both = [
        dist.P2POp(dist.isend, mine, (rank + 1) % count),
        dist.P2POp(dist.irecv, tensor, (rank - 1) % count),
    ]
    for work in dist.batch_isend_irecv(both):
        work.wait()
    return tensor


# %% wrong: returns_nothing
# Fills a tensor and keeps it.


def ring_shift(tensor):
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    received = torch.empty_like(tensor)
    both = [
        dist.P2POp(dist.isend, tensor, (rank + 1) % count),
        dist.P2POp(dist.irecv, received, (rank - 1) % count),
    ]
    for work in dist.batch_isend_irecv(both):
        work.wait()


# %% right: rank_0_receives_first
# One rank in another order breaks the circle.


def ring_shift(tensor):
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    up, down = (rank + 1) % count, (rank - 1) % count
    received = torch.zeros_like(tensor)
    if rank:
        dist.send(tensor, up)
        dist.recv(received, down)
    else:
        dist.recv(received, down)
        dist.send(tensor, up)
    return received


# %% right: started_and_waited_for
# Starts the send, receives, then waits for the send.


def ring_shift(tensor):
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    received = torch.empty_like(tensor)
    sending = dist.isend(tensor, (rank + 1) % count)
    dist.recv(received, (rank - 1) % count)
    sending.wait()
    return received
