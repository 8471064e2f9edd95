# %% wrong: all_send_first
# Lets every rank send before it receives: each send waits for a receive that never comes.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return passed_on(block, 1)

    @staticmethod
    def backward(ctx, gradient):
        return passed_on(gradient, -1)


def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    received = torch.empty_like(block)
    dist.send(block.contiguous(), (rank + step) % ranks)
    dist.recv(received, (rank - step) % ranks)
    return received


def ring_attention(q, k, v):
    output, lse = attend(q, k, v)
    block = torch.stack([k, v])
    for _ in range(dist.get_world_size() - 1):
        block = Shift.apply(block)
        more, more_lse = attend(q, block[0], block[1])
        both = torch.logaddexp(lse, more_lse)
        output = output * (lse - both).exp() + more * (more_lse - both).exp()
        lse = both
    return output


# %% wrong: all_receive_first
# Lets every rank receive before it sends, so no message is ever sent.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return passed_on(block, 1)

    @staticmethod
    def backward(ctx, gradient):
        return passed_on(gradient, -1)


def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    received = torch.empty_like(block)
    dist.recv(received, (rank - step) % ranks)
    dist.send(block.contiguous(), (rank + step) % ranks)
    return received


def ring_attention(q, k, v):
    output, lse = attend(q, k, v)
    block = torch.stack([k, v])
    for _ in range(dist.get_world_size() - 1):
        block = Shift.apply(block)
        more, more_lse = attend(q, block[0], block[1])
        both = torch.logaddexp(lse, more_lse)
        output = output * (lse - both).exp() + more * (more_lse - both).exp()
        lse = both
    return output


# %% wrong: receives_into_what_it_sends
# Reuses the buffer that is being sent for what arrives.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return passed_on(block, 1)

    @staticmethod
    def backward(ctx, gradient):
        return passed_on(gradient, -1)


def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    block = block.contiguous().clone()
    sending = dist.isend(block, (rank + step) % ranks)
    receiving = dist.irecv(block, (rank - step) % ranks)
    sending.wait()
    receiving.wait()
    return block


def ring_attention(q, k, v):
    output, lse = attend(q, k, v)
    block = torch.stack([k, v])
    for _ in range(dist.get_world_size() - 1):
        block = Shift.apply(block)
        more, more_lse = attend(q, block[0], block[1])
        both = torch.logaddexp(lse, more_lse)
        output = output * (lse - both).exp() + more * (more_lse - both).exp()
        lse = both
    return output


# %% wrong: changes_what_it_sends
# Scales the keys in place while they are still being sent.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return passed_on(block, 1)

    @staticmethod
    def backward(ctx, gradient):
        return passed_on(gradient, -1)


def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    block = block.contiguous()
    received = torch.empty_like(block)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, block, (rank + step) % ranks),
        dist.P2POp(dist.irecv, received, (rank - step) % ranks),
    ])
    works[1].wait()
    block.mul_(1.0001)
    works[0].wait()
    return received


def ring_attention(q, k, v):
    output, lse = attend(q, k, v)
    block = torch.stack([k, v])
    for _ in range(dist.get_world_size() - 1):
        block = Shift.apply(block)
        more, more_lse = attend(q, block[0], block[1])
        both = torch.logaddexp(lse, more_lse)
        output = output * (lse - both).exp() + more * (more_lse - both).exp()
        lse = both
    return output


# %% wrong: two_buffers_swapped_early
# Swaps two buffers and receives into the one whose send has not ended.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return passed_on(block, 1)

    @staticmethod
    def backward(ctx, gradient):
        return passed_on(gradient, -1)


def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    block = block.contiguous()
    received = torch.empty_like(block)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, block, (rank + step) % ranks),
        dist.P2POp(dist.irecv, received, (rank - step) % ranks),
    ])
    for work in works:
        work.wait()
    return received


def ring_attention(q, k, v):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    output, lse = attend(q, k, v)
    buffers = [torch.stack([k, v]).detach(), torch.empty(2, *k.shape, dtype=k.dtype)]
    sends = []
    for step in range(ranks - 1):
        sends.append(dist.isend(buffers[0], (rank + 1) % ranks))
        dist.irecv(buffers[1], (rank - 1) % ranks).wait()
        buffers.reverse()
        more, more_lse = attend(q, *buffers[0])
        both = torch.logaddexp(lse, more_lse)
        output = output * (lse - both).exp() + more * (more_lse - both).exp()
        lse = both
    for send in sends:
        send.wait()
    return output


# %% wrong: reads_before_it_waits
# Computes with what arrives before the receive has ended.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return passed_on(block, 1)

    @staticmethod
    def backward(ctx, gradient):
        return passed_on(gradient, -1)


def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    block = block.contiguous()
    received = torch.empty_like(block)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, block, (rank + step) % ranks),
        dist.P2POp(dist.irecv, received, (rank - step) % ranks),
    ])
    works[0].wait()
    result = received.clone()
    works[1].wait()
    return result


def ring_attention(q, k, v):
    output, lse = attend(q, k, v)
    block = torch.stack([k, v])
    for _ in range(dist.get_world_size() - 1):
        block = Shift.apply(block)
        more, more_lse = attend(q, block[0], block[1])
        both = torch.logaddexp(lse, more_lse)
        output = output * (lse - both).exp() + more * (more_lse - both).exp()
        lse = both
    return output


# %% wrong: average_of_blocks
# Averages the outputs of the blocks, as if each had the same share of the exponentials.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return passed_on(block, 1)

    @staticmethod
    def backward(ctx, gradient):
        return passed_on(gradient, -1)


def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    block = block.contiguous()
    received = torch.empty_like(block)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, block, (rank + step) % ranks),
        dist.P2POp(dist.irecv, received, (rank - step) % ranks),
    ])
    for work in works:
        work.wait()
    return received


def ring_attention(q, k, v):
    output, lse = attend(q, k, v)
    block = torch.stack([k, v])
    for _ in range(dist.get_world_size() - 1):
        block = Shift.apply(block)
        more, more_lse = attend(q, block[0], block[1])
        output = output + more
    return output / dist.get_world_size()


# %% wrong: sum_of_blocks
# Adds up the outputs of the blocks.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return passed_on(block, 1)

    @staticmethod
    def backward(ctx, gradient):
        return passed_on(gradient, -1)


def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    block = block.contiguous()
    received = torch.empty_like(block)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, block, (rank + step) % ranks),
        dist.P2POp(dist.irecv, received, (rank - step) % ranks),
    ])
    for work in works:
        work.wait()
    return received


def ring_attention(q, k, v):
    output, lse = attend(q, k, v)
    block = torch.stack([k, v])
    for _ in range(dist.get_world_size() - 1):
        block = Shift.apply(block)
        more, more_lse = attend(q, block[0], block[1])
        output = output + more
    return output


# %% wrong: lse_as_weight
# Takes the log-sum-exp itself as the weight, without the exponential.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return passed_on(block, 1)

    @staticmethod
    def backward(ctx, gradient):
        return passed_on(gradient, -1)


def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    block = block.contiguous()
    received = torch.empty_like(block)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, block, (rank + step) % ranks),
        dist.P2POp(dist.irecv, received, (rank - step) % ranks),
    ])
    for work in works:
        work.wait()
    return received


def ring_attention(q, k, v):
    output, lse = attend(q, k, v)
    block = torch.stack([k, v])
    for _ in range(dist.get_world_size() - 1):
        block = Shift.apply(block)
        more, more_lse = attend(q, block[0], block[1])
        output = (output * lse + more * more_lse) / (lse + more_lse)
        lse = lse + more_lse
    return output


# %% wrong: lse_of_the_first_block
# Never updates the log-sum-exp, so each further block is merged with the first alone.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return passed_on(block, 1)

    @staticmethod
    def backward(ctx, gradient):
        return passed_on(gradient, -1)


def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    block = block.contiguous()
    received = torch.empty_like(block)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, block, (rank + step) % ranks),
        dist.P2POp(dist.irecv, received, (rank - step) % ranks),
    ])
    for work in works:
        work.wait()
    return received


def ring_attention(q, k, v):
    output, lse = attend(q, k, v)
    block = torch.stack([k, v])
    for _ in range(dist.get_world_size() - 1):
        block = Shift.apply(block)
        more, more_lse = attend(q, block[0], block[1])
        both = torch.logaddexp(lse, more_lse)
        output = output * (lse - both).exp() + more * (more_lse - both).exp()
    return output


# %% wrong: one_hop_too_many
# Sends each block once more at the end, back to its owner.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return passed_on(block, 1)

    @staticmethod
    def backward(ctx, gradient):
        return passed_on(gradient, -1)


def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    block = block.contiguous()
    received = torch.empty_like(block)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, block, (rank + step) % ranks),
        dist.P2POp(dist.irecv, received, (rank - step) % ranks),
    ])
    for work in works:
        work.wait()
    return received


def ring_attention(q, k, v):
    block, output, lse = torch.stack([k, v]), None, None
    for _ in range(dist.get_world_size()):
        more, more_lse = attend(q, block[0], block[1])
        if output is None:
            output, lse = more, more_lse
        else:
            both = torch.logaddexp(lse, more_lse)
            output = output * (lse - both).exp() + more * (more_lse - both).exp()
            lse = both
        block = Shift.apply(block)
    return output


# %% wrong: one_block_missing
# Stops one step early, so the block of the next rank is never seen.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return passed_on(block, 1)

    @staticmethod
    def backward(ctx, gradient):
        return passed_on(gradient, -1)


def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    block = block.contiguous()
    received = torch.empty_like(block)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, block, (rank + step) % ranks),
        dist.P2POp(dist.irecv, received, (rank - step) % ranks),
    ])
    for work in works:
        work.wait()
    return received


def ring_attention(q, k, v):
    output, lse = attend(q, k, v)
    block = torch.stack([k, v])
    for _ in range(dist.get_world_size() - 2):
        block = Shift.apply(block)
        more, more_lse = attend(q, block[0], block[1])
        both = torch.logaddexp(lse, more_lse)
        output = output * (lse - both).exp() + more * (more_lse - both).exp()
        lse = both
    return output


# %% wrong: own_block_passed_on_only
# Sends its own block in each step and never passes on what it got.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return passed_on(block, 1)

    @staticmethod
    def backward(ctx, gradient):
        return passed_on(gradient, -1)


def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    block = block.contiguous()
    received = torch.empty_like(block)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, block, (rank + step) % ranks),
        dist.P2POp(dist.irecv, received, (rank - step) % ranks),
    ])
    for work in works:
        work.wait()
    return received


def ring_attention(q, k, v):
    output, lse = attend(q, k, v)
    block = torch.stack([k, v])
    for _ in range(dist.get_world_size() - 1):
        arrived = Shift.apply(block)
        more, more_lse = attend(q, arrived[0], arrived[1])
        both = torch.logaddexp(lse, more_lse)
        output = output * (lse - both).exp() + more * (more_lse - both).exp()
        lse = both
    return output


# %% wrong: no_gradient_of_what_arrives
# Receives without autograd: gradients for other ranks' keys and values end here.

def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    block = block.contiguous()
    received = torch.empty_like(block)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, block, (rank + step) % ranks),
        dist.P2POp(dist.irecv, received, (rank - step) % ranks),
    ])
    for work in works:
        work.wait()
    return received


def ring_attention(q, k, v):
    output, lse = attend(q, k, v)
    block = torch.stack([k, v])
    for _ in range(dist.get_world_size() - 1):
        block = passed_on(block.detach(), 1)
        more, more_lse = attend(q, block[0], block[1])
        both = torch.logaddexp(lse, more_lse)
        output = output * (lse - both).exp() + more * (more_lse - both).exp()
        lse = both
    return output


# %% wrong: gradient_not_sent
# Returns the gradient as it is: the rank that got the block keeps its gradient.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return passed_on(block, 1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    block = block.contiguous()
    received = torch.empty_like(block)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, block, (rank + step) % ranks),
        dist.P2POp(dist.irecv, received, (rank - step) % ranks),
    ])
    for work in works:
        work.wait()
    return received


def ring_attention(q, k, v):
    output, lse = attend(q, k, v)
    block = torch.stack([k, v])
    for _ in range(dist.get_world_size() - 1):
        block = Shift.apply(block)
        more, more_lse = attend(q, block[0], block[1])
        both = torch.logaddexp(lse, more_lse)
        output = output * (lse - both).exp() + more * (more_lse - both).exp()
        lse = both
    return output


# %% wrong: gradient_sent_forwards
# Sends the gradient to the next rank, as the block, and not back.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return passed_on(block, 1)

    @staticmethod
    def backward(ctx, gradient):
        return passed_on(gradient, 1)


def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    block = block.contiguous()
    received = torch.empty_like(block)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, block, (rank + step) % ranks),
        dist.P2POp(dist.irecv, received, (rank - step) % ranks),
    ])
    for work in works:
        work.wait()
    return received


def ring_attention(q, k, v):
    output, lse = attend(q, k, v)
    block = torch.stack([k, v])
    for _ in range(dist.get_world_size() - 1):
        block = Shift.apply(block)
        more, more_lse = attend(q, block[0], block[1])
        both = torch.logaddexp(lse, more_lse)
        output = output * (lse - both).exp() + more * (more_lse - both).exp()
        lse = both
    return output


# %% wrong: everything_gathered
# Gathers the keys and values of all ranks and computes attention once.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return joined(block)

    @staticmethod
    def backward(ctx, gradient):
        rank, ranks = dist.get_rank(), dist.get_world_size()
        parts = [part.contiguous() for part in gradient.chunk(ranks, dim=3)]
        mine = torch.empty_like(parts[0])
        dist.reduce_scatter(mine, parts)
        return mine


def joined(block):
    parts = [torch.empty_like(block) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, block.contiguous())
    return torch.cat(parts, dim=3)


def ring_attention(q, k, v):
    keys, values = Shift.apply(torch.stack([k, v]))
    return attend(q, keys, values)[0]


# %% wrong: all_blocks_kept
# Passes blocks around, but keeps them all and attends to all keys at the end.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return passed_on(block, 1)

    @staticmethod
    def backward(ctx, gradient):
        return passed_on(gradient, -1)


def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    block = block.contiguous()
    received = torch.empty_like(block)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, block, (rank + step) % ranks),
        dist.P2POp(dist.irecv, received, (rank - step) % ranks),
    ])
    for work in works:
        work.wait()
    return received


def ring_attention(q, k, v):
    blocks = [torch.stack([k, v])]
    for _ in range(dist.get_world_size() - 1):
        blocks.append(Shift.apply(blocks[-1]))
    keys, values = torch.cat(blocks, dim=3)
    return attend(q, keys, values)[0]


# %% wrong: queries_travel_too
# Sends queries, keys and values around.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return passed_on(block, 1)

    @staticmethod
    def backward(ctx, gradient):
        return passed_on(gradient, -1)


def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    block = block.contiguous()
    received = torch.empty_like(block)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, block, (rank + step) % ranks),
        dist.P2POp(dist.irecv, received, (rank - step) % ranks),
    ])
    for work in works:
        work.wait()
    return received


def ring_attention(q, k, v):
    output, lse = attend(q, k, v)
    block = torch.stack([q, k, v])
    for _ in range(dist.get_world_size() - 1):
        block = Shift.apply(block)
        more, more_lse = attend(q, block[1], block[2])
        both = torch.logaddexp(lse, more_lse)
        output = output * (lse - both).exp() + more * (more_lse - both).exp()
        lse = both
    return output


# %% wrong: not_contiguous
# Sends a slice of a transposed tensor, which is not contiguous.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return passed_on(block, 1)

    @staticmethod
    def backward(ctx, gradient):
        return passed_on(gradient, -1)


def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    block = block.transpose(0, -1).contiguous().transpose(0, -1)
    received = torch.empty(block.shape, dtype=block.dtype)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, block, (rank + step) % ranks),
        dist.P2POp(dist.irecv, received, (rank - step) % ranks),
    ])
    for work in works:
        work.wait()
    return received


def ring_attention(q, k, v):
    output, lse = attend(q, k, v)
    block = torch.stack([k, v])
    for _ in range(dist.get_world_size() - 1):
        block = Shift.apply(block)
        more, more_lse = attend(q, block[0], block[1])
        both = torch.logaddexp(lse, more_lse)
        output = output * (lse - both).exp() + more * (more_lse - both).exp()
        lse = both
    return output


# %% wrong: straight_to_every_rank
# Sends its own block to each rank directly, and not around the ring.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block, step):
        ctx.step = step
        return passed_on(block, step)

    @staticmethod
    def backward(ctx, gradient):
        return passed_on(gradient, -ctx.step), None


def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    block = block.contiguous()
    received = torch.empty_like(block)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, block, (rank + step) % ranks),
        dist.P2POp(dist.irecv, received, (rank - step) % ranks),
    ])
    for work in works:
        work.wait()
    return received


def ring_attention(q, k, v):
    output, lse = attend(q, k, v)
    block = torch.stack([k, v])
    for step in range(1, dist.get_world_size()):
        arrived = Shift.apply(block, step)
        more, more_lse = attend(q, arrived[0], arrived[1])
        both = torch.logaddexp(lse, more_lse)
        output = output * (lse - both).exp() + more * (more_lse - both).exp()
        lse = both
    return output


# %% wrong: buffer_of_float64
# Receives into a tensor of the dtype that it has met, whatever is sent.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return passed_on(block, 1)

    @staticmethod
    def backward(ctx, gradient):
        return passed_on(gradient, -1)


def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    block = block.contiguous()
    received = torch.empty(block.shape, dtype=torch.float64)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, block, (rank + step) % ranks),
        dist.P2POp(dist.irecv, received, (rank - step) % ranks),
    ])
    for work in works:
        work.wait()
    return received


def ring_attention(q, k, v):
    output, lse = attend(q, k, v)
    block = torch.stack([k, v])
    for _ in range(dist.get_world_size() - 1):
        block = Shift.apply(block)
        more, more_lse = attend(q, block[0], block[1])
        both = torch.logaddexp(lse, more_lse)
        output = output * (lse - both).exp() + more * (more_lse - both).exp()
        lse = both
    return output


# %% wrong: exponentials_as_they_are
# Adds up exp(lse) and takes the logarithm: with large scores, the exponentials overflow.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return passed_on(block, 1)

    @staticmethod
    def backward(ctx, gradient):
        return passed_on(gradient, -1)


def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    block = block.contiguous()
    received = torch.empty_like(block)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, block, (rank + step) % ranks),
        dist.P2POp(dist.irecv, received, (rank - step) % ranks),
    ])
    for work in works:
        work.wait()
    return received


def ring_attention(q, k, v):
    output, lse = attend(q, k, v)
    block = torch.stack([k, v])
    for _ in range(dist.get_world_size() - 1):
        block = Shift.apply(block)
        more, more_lse = attend(q, block[0], block[1])
        both = (lse.exp() + more_lse.exp()).log()
        output, lse = output * (lse - both).exp() + more * (more_lse - both).exp(), both
    return output


# %% wrong: weights_without_a_gradient
# Thinks that the blocks' weights are constants, and detaches them.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return passed_on(block, 1)

    @staticmethod
    def backward(ctx, gradient):
        return passed_on(gradient, -1)


def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    block = block.contiguous()
    received = torch.empty_like(block)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, block, (rank + step) % ranks),
        dist.P2POp(dist.irecv, received, (rank - step) % ranks),
    ])
    for work in works:
        work.wait()
    return received


def ring_attention(q, k, v):
    output, lse = attend(q, k, v)
    block = torch.stack([k, v])
    for _ in range(dist.get_world_size() - 1):
        block = Shift.apply(block)
        more, more_lse = attend(q, block[0], block[1])
        both = torch.logaddexp(lse, more_lse).detach()
        output, lse = output * (lse - both).exp() + more * (more_lse - both).exp(), both
    return output


# %% right: even_and_odd
# Blocking sends and receives: even ranks send first, odd ones receive first. With an odd number of ranks, rank 0 and
# the last one are both even, and rank 1 breaks the circle.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return passed_on(block, 1)

    @staticmethod
    def backward(ctx, gradient):
        return passed_on(gradient, -1)


def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if ranks == 1:
        return block.clone()
    block, received = block.contiguous(), torch.empty(block.shape, dtype=block.dtype)
    if rank % 2 == 0:
        dist.send(block, (rank + step) % ranks)
        dist.recv(received, (rank - step) % ranks)
    else:
        dist.recv(received, (rank - step) % ranks)
        dist.send(block, (rank + step) % ranks)
    return received


def ring_attention(q, k, v):
    output, lse = attend(q, k, v)
    block = torch.stack([k, v])
    for _ in range(dist.get_world_size() - 1):
        block = Shift.apply(block)
        more, more_lse = attend(q, block[0], block[1])
        both = torch.logaddexp(lse, more_lse)
        output = output * (lse - both).exp() + more * (more_lse - both).exp()
        lse = both
    return output


# %% right: keys_and_values_apart
# Two messages for each hop, isend and irecv, and a softmax that keeps the maximum and the sum.

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block):
        return passed_on(block, 1)

    @staticmethod
    def backward(ctx, gradient):
        return passed_on(gradient, -1)


def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    block, received = block.contiguous(), torch.empty(block.shape, dtype=block.dtype)
    receiving = dist.irecv(received, (rank - step) % ranks)
    sending = dist.isend(block, (rank + step) % ranks)
    receiving.wait()
    sending.wait()
    return received


def ring_attention(q, k, v):
    scale = q.shape[-1] ** -0.5
    most = torch.full_like(q[..., :1], float("-inf"))
    total, output = torch.zeros_like(most), torch.zeros_like(q)
    ranks = dist.get_world_size()
    for step in range(ranks):
        scores = q @ k.transpose(-1, -2) * scale
        higher = torch.maximum(most, scores.detach().amax(-1, keepdim=True))
        shares, shrink = (scores - higher).exp(), (most - higher).exp()
        total = total * shrink + shares.sum(-1, keepdim=True)
        output = output * shrink + shares @ v
        most = higher
        if step < ranks - 1:
            k, v = Shift.apply(k), Shift.apply(v)
    return output / total


# %% right: overlapped_by_hand
# One autograd.Function for the whole ring: the next block is on its way during a product, and gradients go around
# with keys and values.

def passed_on(block, step):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    block = block.contiguous()
    received = torch.empty_like(block)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, block, (rank + step) % ranks),
        dist.P2POp(dist.irecv, received, (rank - step) % ranks),
    ])
    for work in works:
        work.wait()
    return received


class Ring(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        rank, ranks = dist.get_rank(), dist.get_world_size()
        block, output, lse = torch.stack([k, v]), None, None
        for step in range(ranks):
            works = []
            if step < ranks - 1:
                following = torch.empty_like(block)
                works = [dist.isend(block, (rank + 1) % ranks), dist.irecv(following, (rank - 1) % ranks)]
            more, more_lse = attend(q, block[0], block[1])
            if output is None:
                output, lse = more, more_lse
            else:
                both = torch.logaddexp(lse, more_lse)
                output = output * (lse - both).exp() + more * (more_lse - both).exp()
                lse = both
            for work in works:
                work.wait()
            if works:
                block = following
        ctx.save_for_backward(q, k, v, output, lse)
        return output

    @staticmethod
    def backward(ctx, gradient):
        q, k, v, output, lse = ctx.saved_tensors
        ranks, scale = dist.get_world_size(), q.shape[-1] ** -0.5
        block, of_block, of_q = torch.stack([k, v]), torch.zeros(2, *k.shape, dtype=k.dtype), torch.zeros_like(q)
        inner = (gradient * output).sum(-1, keepdim=True)
        for step in range(ranks):
            keys, values = block
            share = (q @ keys.transpose(-1, -2) * scale - lse).exp()
            of_scores = share * (gradient @ values.transpose(-1, -2) - inner) * scale
            of_q = of_q + of_scores @ keys
            of_block[0] += of_scores.transpose(-1, -2) @ q
            of_block[1] += share.transpose(-1, -2) @ gradient
            if step < ranks - 1:
                block = passed_on(block, 1)
            if ranks > 1:
                of_block = passed_on(of_block, 1)
        return of_q, of_block[0], of_block[1]


def ring_attention(q, k, v):
    return Ring.apply(q, k, v)
