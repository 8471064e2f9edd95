# %% wrong: star
# Adds everything up on the first device and copies the sum back. The sums are right, and one link carries all.

def ring_all_reduce(tensors):
    total = tensors[0].clone()
    for tensor in tensors[1:]:
        total += tensor.to(total.device)
    return [total.to(tensor.device, copy=True) for tensor in tensors]


# %% wrong: whole_tensors_around
# Goes around the ring with whole tensors and not with pieces.

def ring_all_reduce(tensors):
    count = len(tensors)
    sums, travelling = [t.clone() for t in tensors], list(tensors)
    for _ in range(count - 1):
        travelling = [travelling[rank - 1].to(tensors[rank].device) for rank in range(count)]
        for rank in range(count):
            sums[rank] += travelling[rank]
    return sums


# %% wrong: everybody_to_everybody
# Each device sends its pieces straight to the device that adds them up, so there is no ring.

def ring_all_reduce(tensors):
    count = len(tensors)
    pieces = [t.flatten().tensor_split(count) for t in tensors]
    sums = [sum(each[rank].to(t.device) for each in pieces) for rank, t in enumerate(tensors)]
    return [torch.cat([s.to(t.device) for s in sums]).view(t.shape) for t in tensors]


# %% wrong: second_half_forgotten
# Stops when each device has the sum of one piece.

def ring_all_reduce(tensors):
    count = len(tensors)
    pieces = [list(t.flatten().tensor_split(count)) for t in tensors]
    for turn in range(count - 1):
        for rank in range(count):
            to, piece = (rank + 1) % count, (rank - turn) % count
            pieces[to][piece] = pieces[to][piece] + pieces[rank][piece].to(tensors[to].device)
    return [torch.cat(own).view(t.shape) for own, t in zip(pieces, tensors)]


# %% wrong: wrong_piece_in_the_second_half
# Sends the same pieces in the second half as in the first. The one that is finished is the next one.

def ring_all_reduce(tensors):
    count = len(tensors)
    pieces = [list(t.flatten().tensor_split(count)) for t in tensors]
    for turn in range(count - 1):
        for rank in range(count):
            to, piece = (rank + 1) % count, (rank - turn) % count
            pieces[to][piece] = pieces[to][piece] + pieces[rank][piece].to(tensors[to].device)
    for turn in range(count - 1):
        for rank in range(count):
            to, piece = (rank + 1) % count, (rank - turn) % count
            pieces[to][piece] = pieces[rank][piece].to(tensors[to].device)
    return [torch.cat(own).view(t.shape) for own, t in zip(pieces, tensors)]


# %% wrong: mean
# Divides by the number of devices, because gradients are averaged in the end.

def ring_all_reduce(tensors):
    count = len(tensors)
    pieces = [list(t.flatten().tensor_split(count)) for t in tensors]
    for turn in range(count - 1):
        for rank in range(count):
            to, piece = (rank + 1) % count, (rank - turn) % count
            pieces[to][piece] = pieces[to][piece] + pieces[rank][piece].to(tensors[to].device)
    for turn in range(count - 1):
        for rank in range(count):
            to, piece = (rank + 1) % count, (rank + 1 - turn) % count
            pieces[to][piece] = pieces[rank][piece].to(tensors[to].device)
    return [torch.cat(own).view(t.shape) / count for own, t in zip(pieces, tensors)]


# %% wrong: inputs_changed
# Adds into views of the tensors that it was given.

def ring_all_reduce(tensors):
    count = len(tensors)
    pieces = [t.flatten().tensor_split(count) for t in tensors]
    for turn in range(count - 1):
        for rank in range(count):
            to, piece = (rank + 1) % count, (rank - turn) % count
            pieces[to][piece].add_(pieces[rank][piece].to(tensors[to].device))
    for turn in range(count - 1):
        for rank in range(count):
            to, piece = (rank + 1) % count, (rank + 1 - turn) % count
            pieces[to][piece].copy_(pieces[rank][piece])
    return [torch.cat(own).view(t.shape) for own, t in zip(pieces, tensors)]


# %% wrong: rest_lost
# Cuts pieces of n // N numbers, and forgets the remainder.

def ring_all_reduce(tensors):
    count = len(tensors)
    size = tensors[0].numel() // count
    flats = [t.flatten().clone() for t in tensors]
    def piece(rank, number):
        return flats[rank][number * size : (number + 1) * size]
    for turn in range(count - 1):
        for rank in range(count):
            to, number = (rank + 1) % count, (rank - turn) % count
            piece(to, number).add_(piece(rank, number).to(tensors[to].device))
    for turn in range(count - 1):
        for rank in range(count):
            to, number = (rank + 1) % count, (rank + 1 - turn) % count
            piece(to, number).copy_(piece(rank, number))
    return [flat.view(t.shape) for flat, t in zip(flats, tensors)]


# %% wrong: chunk_makes_fewer
# Takes chunk(), which makes fewer pieces than asked for where the numbers do not divide.

def ring_all_reduce(tensors):
    count = len(tensors)
    pieces = [list(t.flatten().chunk(count)) for t in tensors]
    for turn in range(count - 1):
        for rank in range(count):
            to, piece = (rank + 1) % count, (rank - turn) % count
            pieces[to][piece] = pieces[to][piece] + pieces[rank][piece].to(tensors[to].device)
    for turn in range(count - 1):
        for rank in range(count):
            to, piece = (rank + 1) % count, (rank + 1 - turn) % count
            pieces[to][piece] = pieces[rank][piece].to(tensors[to].device)
    return [torch.cat(own).view(t.shape) for own, t in zip(pieces, tensors)]


# %% wrong: flat
# Returns the sums flattened, and not in the shape of the input.

def ring_all_reduce(tensors):
    count = len(tensors)
    pieces = [list(t.flatten().tensor_split(count)) for t in tensors]
    for turn in range(count - 1):
        for rank in range(count):
            to, piece = (rank + 1) % count, (rank - turn) % count
            pieces[to][piece] = pieces[to][piece] + pieces[rank][piece].to(tensors[to].device)
    for turn in range(count - 1):
        for rank in range(count):
            to, piece = (rank + 1) % count, (rank + 1 - turn) % count
            pieces[to][piece] = pieces[rank][piece].to(tensors[to].device)
    return [torch.cat(own) for own in pieces]


# %% wrong: in_place_and_nothing_returned
# Works like the lesson's ring: changes what it is given, and returns nothing.

def ring_all_reduce(tensors):
    count = len(tensors)
    pieces = [t.view(-1).tensor_split(count) for t in tensors]
    for turn in range(count - 1):
        for rank in range(count):
            to, piece = (rank + 1) % count, (rank - turn) % count
            pieces[to][piece].add_(pieces[rank][piece].to(tensors[to].device))
    for turn in range(count - 1):
        for rank in range(count):
            to, piece = (rank + 1) % count, (rank + 1 - turn) % count
            pieces[to][piece].copy_(pieces[rank][piece])


# %% wrong: sums_in_float32
# Makes room for the sums without saying which dtype, so they are float32 whatever is added.

def ring_all_reduce(tensors):
    count, size = len(tensors), tensors[0].numel()
    sums = [torch.zeros(size, device=tensor.device) for tensor in tensors]
    for own, tensor in zip(sums, tensors):
        own += tensor.flatten()
    pieces = [own.tensor_split(count) for own in sums]
    for turn in range(2 * count - 2):
        for rank in range(count):
            piece, neighbour = (rank - turn) % count, (rank + 1) % count
            arrived = pieces[rank][piece].to(sums[neighbour].device)
            if turn < count - 1:
                pieces[neighbour][piece].add_(arrived)
            else:
                pieces[neighbour][piece].copy_(arrived)
    return [own.view(tensor.shape) for own, tensor in zip(sums, tensors)]


# %% right: padded
# Adds zeros at the end, so that the pieces are equal, and cuts them off again.

def ring_all_reduce(tensors):
    P = len(tensors)
    n = tensors[0].numel()
    size = (n + P - 1) // P
    grids = []
    for t in tensors:
        padded = torch.zeros(P * size, dtype=t.dtype, device=t.device)
        padded[:n] = t.reshape(-1)
        grids.append(padded.view(P, size))
    for step in range(P - 1):
        sent = [grids[r][(r - step) % P].to(tensors[(r + 1) % P].device) for r in range(P)]
        for r in range(P):
            grids[(r + 1) % P][(r - step) % P] += sent[r]
    for step in range(P - 1):
        sent = [grids[r][(r + 1 - step) % P].to(tensors[(r + 1) % P].device) for r in range(P)]
        for r in range(P):
            grids[(r + 1) % P][(r + 1 - step) % P] = sent[r]
    return [grid.view(-1)[:n].view(t.shape).clone() for grid, t in zip(grids, tensors)]


# %% right: one_piece_after_the_other
# Follows each piece on its way around, twice.

def ring_all_reduce(tensors):
    count = len(tensors)
    results = [[None] * count for _ in tensors]
    parts = [t.detach().flatten().tensor_split(count) for t in tensors]
    for number in range(count):
        way = [(number + turn) % count for turn in range(count)]
        total = parts[way[0]][number].clone()
        for rank in way[1:]:
            total = total.to(tensors[rank].device) + parts[rank][number]
        results[way[-1]][number] = total
        for rank in [way[-1], *way[:-1]][1:]:
            total = total.to(tensors[rank].device)
            results[rank][number] = total
    return [torch.cat(found).reshape(tensor.shape) for found, tensor in zip(results, tensors)]


# %% right: the_other_way_around
# Sends to the device before.

def ring_all_reduce(tensors):
    count = len(tensors)
    chunks = [list(torch.tensor_split(t.ravel(), count)) for t in tensors]
    for turn in range(count - 1):
        for rank in range(count):
            to, c = (rank - 1) % count, (rank + turn) % count
            chunks[to][c] = chunks[rank][c].to(tensors[to].device) + chunks[to][c]
    for turn in range(count - 1):
        for rank in range(count):
            to, c = (rank - 1) % count, (rank - 1 + turn) % count
            chunks[to][c] = chunks[rank][c].to(tensors[to].device)
    return [torch.cat(c).view_as(t) for c, t in zip(chunks, tensors)]


# %% right: with_streams
# In place on a copy of its own, with streams that copy.

def ring_all_reduce(tensors):
    gpu = torch.get_device_module(tensors[0].device)
    count = len(tensors)
    flats = [t.clone().view(-1) for t in tensors]
    streams = [gpu.Stream(t.device) for t in tensors]
    for stream, t in zip(streams, tensors):
        stream.wait_stream(gpu.current_stream(t.device))
    pieces = [flat.tensor_split(count) for flat in flats]
    for adding, shift in ((True, 0), (False, 1)):
        for turn in range(count - 1):
            for rank in range(count):
                to, piece = (rank + 1) % count, (rank + shift - turn) % count
                with gpu.stream(streams[rank]), gpu.stream(streams[to]):
                    if adding:
                        pieces[to][piece].add_(pieces[rank][piece].to(tensors[to].device, non_blocking=True))
                    else:
                        pieces[to][piece].copy_(pieces[rank][piece], non_blocking=True)
    for stream, t in zip(streams, tensors):
        gpu.current_stream(t.device).wait_stream(stream)
    return [flat.view(t.shape) for flat, t in zip(flats, tensors)]


# %% wrong: one_device_gives_its_own
# Gives the tensor itself back where there is one device only, because nothing has to be added.

def ring_all_reduce(tensors):
    count = len(tensors)
    if count == 1:
        return tensors
    pieces = [list(tensor.flatten().tensor_split(count)) for tensor in tensors]
    for turn in range(2 * count - 2):
        for rank in range(count):
            neighbour, piece = (rank + 1) % count, (rank - turn) % count
            arrived = pieces[rank][piece].to(tensors[neighbour].device)
            adding = turn < count - 1
            pieces[neighbour][piece] = pieces[neighbour][piece] + arrived if adding else arrived
    return [torch.cat(own).view(tensor.shape) for own, tensor in zip(pieces, tensors, strict=True)]
