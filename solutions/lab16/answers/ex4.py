# %% wrong: all_reduce_and_slice
# All-reduces the products and slices its own tokens out: twice the bytes.

def gathered(part):
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous())
    return torch.cat(parts, dim=1)


def reduce_scattered(whole):
    total = whole.clone()
    dist.all_reduce(total)
    return total.chunk(dist.get_world_size(), dim=1)[dist.get_rank()].contiguous()


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        return gathered(part)

    @staticmethod
    def backward(ctx, gradient):
        return reduce_scattered(gradient)


class ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, whole):
        return reduce_scattered(whole)

    @staticmethod
    def backward(ctx, gradient):
        return gathered(gradient)


class Replicated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone()
        dist.all_reduce(total)
        return total


def sequence_parallel(x, weight, column, row, inner):
    normed = nn.functional.rms_norm(x, weight.shape, Replicated.apply(weight))
    hidden = inner(nn.functional.linear(Gather.apply(normed), column))
    return x + ReduceScatter.apply(nn.functional.linear(hidden, row))


# %% wrong: all_reduce_and_slice_in_backward
# Reduce-scatters forward; in the backward pass, it all-reduces the gradient and slices.

def gathered(part):
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous())
    return torch.cat(parts, dim=1)


def reduce_scattered(whole):
    parts = [part.contiguous() for part in whole.chunk(dist.get_world_size(), dim=1)]
    output = torch.empty_like(parts[0])
    dist.reduce_scatter(output, parts)
    return output

def reduced_slice(whole):
    total = whole.clone()
    dist.all_reduce(total)
    return total.chunk(dist.get_world_size(), dim=1)[dist.get_rank()].contiguous()


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        return gathered(part)

    @staticmethod
    def backward(ctx, gradient):
        return reduced_slice(gradient)


class ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, whole):
        return reduce_scattered(whole)

    @staticmethod
    def backward(ctx, gradient):
        return gathered(gradient)


class Replicated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone()
        dist.all_reduce(total)
        return total


def sequence_parallel(x, weight, column, row, inner):
    normed = nn.functional.rms_norm(x, weight.shape, Replicated.apply(weight))
    hidden = inner(nn.functional.linear(Gather.apply(normed), column))
    return x + ReduceScatter.apply(nn.functional.linear(hidden, row))


# %% wrong: weight_not_added_up
# Forgets that each rank's norm saw its own tokens only.

def gathered(part):
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous())
    return torch.cat(parts, dim=1)


def reduce_scattered(whole):
    parts = [part.contiguous() for part in whole.chunk(dist.get_world_size(), dim=1)]
    output = torch.empty_like(parts[0])
    dist.reduce_scatter(output, parts)
    return output


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        return gathered(part)

    @staticmethod
    def backward(ctx, gradient):
        return reduce_scattered(gradient)


class ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, whole):
        return reduce_scattered(whole)

    @staticmethod
    def backward(ctx, gradient):
        return gathered(gradient)


def sequence_parallel(x, weight, column, row, inner):
    normed = nn.functional.rms_norm(x, weight.shape, weight)
    hidden = inner(nn.functional.linear(Gather.apply(normed), column))
    return x + ReduceScatter.apply(nn.functional.linear(hidden, row))


# %% wrong: weight_averaged
# Averages the gradient of the norm's weight, as in data parallelism.

def gathered(part):
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous())
    return torch.cat(parts, dim=1)


def reduce_scattered(whole):
    parts = [part.contiguous() for part in whole.chunk(dist.get_world_size(), dim=1)]
    output = torch.empty_like(parts[0])
    dist.reduce_scatter(output, parts)
    return output


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        return gathered(part)

    @staticmethod
    def backward(ctx, gradient):
        return reduce_scattered(gradient)


class ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, whole):
        return reduce_scattered(whole)

    @staticmethod
    def backward(ctx, gradient):
        return gathered(gradient)


class Replicated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone()
        dist.all_reduce(total)
        total = total / dist.get_world_size()
        return total


def sequence_parallel(x, weight, column, row, inner):
    normed = nn.functional.rms_norm(x, weight.shape, Replicated.apply(weight))
    hidden = inner(nn.functional.linear(Gather.apply(normed), column))
    return x + ReduceScatter.apply(nn.functional.linear(hidden, row))


# %% wrong: all_gradients_added_up
# All-reduces the gradients of all weights, also of those that are sharded.

def gathered(part):
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous())
    return torch.cat(parts, dim=1)


def reduce_scattered(whole):
    parts = [part.contiguous() for part in whole.chunk(dist.get_world_size(), dim=1)]
    output = torch.empty_like(parts[0])
    dist.reduce_scatter(output, parts)
    return output


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        return gathered(part)

    @staticmethod
    def backward(ctx, gradient):
        return reduce_scattered(gradient)


class ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, whole):
        return reduce_scattered(whole)

    @staticmethod
    def backward(ctx, gradient):
        return gathered(gradient)


class Replicated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone()
        dist.all_reduce(total)
        return total


def sequence_parallel(x, weight, column, row, inner):
    normed = nn.functional.rms_norm(x, weight.shape, Replicated.apply(weight))
    hidden = inner(nn.functional.linear(Gather.apply(normed), Replicated.apply(column)))
    return x + ReduceScatter.apply(nn.functional.linear(hidden, Replicated.apply(row)))


# %% wrong: gather_sliced_in_backward
# Slices the gradient of what was gathered: the other ranks' gradients are lost.

def gathered(part):
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous())
    return torch.cat(parts, dim=1)


def reduce_scattered(whole):
    parts = [part.contiguous() for part in whole.chunk(dist.get_world_size(), dim=1)]
    output = torch.empty_like(parts[0])
    dist.reduce_scatter(output, parts)
    return output


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        return gathered(part)

    @staticmethod
    def backward(ctx, gradient):
        ranks, rank = dist.get_world_size(), dist.get_rank()
        return gradient.chunk(ranks, dim=1)[rank].contiguous()


class ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, whole):
        return reduce_scattered(whole)

    @staticmethod
    def backward(ctx, gradient):
        return gathered(gradient)


class Replicated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone()
        dist.all_reduce(total)
        return total


def sequence_parallel(x, weight, column, row, inner):
    normed = nn.functional.rms_norm(x, weight.shape, Replicated.apply(weight))
    hidden = inner(nn.functional.linear(Gather.apply(normed), column))
    return x + ReduceScatter.apply(nn.functional.linear(hidden, row))


# %% wrong: scatter_not_gathered_in_backward
# Gives the gradient of its own part only: zeros elsewhere.

def gathered(part):
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous())
    return torch.cat(parts, dim=1)


def reduce_scattered(whole):
    parts = [part.contiguous() for part in whole.chunk(dist.get_world_size(), dim=1)]
    output = torch.empty_like(parts[0])
    dist.reduce_scatter(output, parts)
    return output


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        return gathered(part)

    @staticmethod
    def backward(ctx, gradient):
        return reduce_scattered(gradient)


class ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, whole):
        return reduce_scattered(whole)

    @staticmethod
    def backward(ctx, gradient):
        ranks, rank = dist.get_world_size(), dist.get_rank()
        parts = [torch.zeros_like(gradient) for _ in range(ranks)]
        parts[rank] = gradient
        return torch.cat(parts, dim=1)


class Replicated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone()
        dist.all_reduce(total)
        return total


def sequence_parallel(x, weight, column, row, inner):
    normed = nn.functional.rms_norm(x, weight.shape, Replicated.apply(weight))
    hidden = inner(nn.functional.linear(Gather.apply(normed), column))
    return x + ReduceScatter.apply(nn.functional.linear(hidden, row))


# %% wrong: no_gradient_of_collectives
# Calls the collectives without an autograd.Function.

def gathered(part):
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous())
    return torch.cat(parts, dim=1)


def reduce_scattered(whole):
    parts = [part.contiguous() for part in whole.chunk(dist.get_world_size(), dim=1)]
    output = torch.empty_like(parts[0])
    dist.reduce_scatter(output, parts)
    return output


def sequence_parallel(x, weight, column, row, inner):
    normed = nn.functional.rms_norm(x, weight.shape, weight)
    hidden = inner(nn.functional.linear(gathered(normed), column))
    return x + reduce_scattered(nn.functional.linear(hidden, row))


# %% wrong: gathers_before_the_norm
# Gathers x and then computes the norm of all tokens on each rank: the memory of tensor parallelism.

def gathered(part):
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous())
    return torch.cat(parts, dim=1)


def reduce_scattered(whole):
    parts = [part.contiguous() for part in whole.chunk(dist.get_world_size(), dim=1)]
    output = torch.empty_like(parts[0])
    dist.reduce_scatter(output, parts)
    return output


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        return gathered(part)

    @staticmethod
    def backward(ctx, gradient):
        return reduce_scattered(gradient)


class ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, whole):
        return reduce_scattered(whole)

    @staticmethod
    def backward(ctx, gradient):
        return gathered(gradient)


def sequence_parallel(x, weight, column, row, inner):
    normed = nn.functional.rms_norm(Gather.apply(x), weight.shape, weight.view_as(weight))
    hidden = inner(nn.functional.linear(normed, column))
    return x + ReduceScatter.apply(nn.functional.linear(hidden, row))


# %% wrong: gathers_before_the_norm_and_adds_up
# Gathers x before the norm, and adds up the weight's gradient.

def gathered(part):
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous())
    return torch.cat(parts, dim=1)


def reduce_scattered(whole):
    parts = [part.contiguous() for part in whole.chunk(dist.get_world_size(), dim=1)]
    output = torch.empty_like(parts[0])
    dist.reduce_scatter(output, parts)
    return output


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        return gathered(part)

    @staticmethod
    def backward(ctx, gradient):
        return reduce_scattered(gradient)


class ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, whole):
        return reduce_scattered(whole)

    @staticmethod
    def backward(ctx, gradient):
        return gathered(gradient)


class Replicated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone()
        dist.all_reduce(total)
        return total


def sequence_parallel(x, weight, column, row, inner):
    normed = nn.functional.rms_norm(Gather.apply(x), weight.shape, Replicated.apply(weight))
    hidden = inner(nn.functional.linear(normed, column))
    return x + ReduceScatter.apply(nn.functional.linear(hidden, row))


# %% wrong: all_tokens_everywhere
# Returns all tokens: gathers the result again.

def gathered(part):
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous())
    return torch.cat(parts, dim=1)


def reduce_scattered(whole):
    parts = [part.contiguous() for part in whole.chunk(dist.get_world_size(), dim=1)]
    output = torch.empty_like(parts[0])
    dist.reduce_scatter(output, parts)
    return output


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        return gathered(part)

    @staticmethod
    def backward(ctx, gradient):
        return reduce_scattered(gradient)


class ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, whole):
        return reduce_scattered(whole)

    @staticmethod
    def backward(ctx, gradient):
        return gathered(gradient)


class Replicated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone()
        dist.all_reduce(total)
        return total


def sequence_parallel(x, weight, column, row, inner):
    normed = nn.functional.rms_norm(x, weight.shape, Replicated.apply(weight))
    hidden = inner(nn.functional.linear(Gather.apply(normed), column))
    return Gather.apply(x + ReduceScatter.apply(nn.functional.linear(hidden, row)))


# %% wrong: not_gathered
# Computes the products of its own tokens only, so attention sees nothing else.

class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        total = part.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Replicated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone()
        dist.all_reduce(total)
        return total


def sequence_parallel(x, weight, column, row, inner):
    normed = nn.functional.rms_norm(x, weight.shape, Replicated.apply(weight))
    return x + Sum.apply(nn.functional.linear(inner(nn.functional.linear(normed, column)), row))


# %% wrong: along_dimension_0
# Gathers along dimension 0, as all_gather_into_tensor does: sequences in place of tokens.

def gathered(part):
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous())
    return torch.cat(parts, dim=0)


def reduce_scattered(whole):
    parts = [part.contiguous() for part in whole.chunk(dist.get_world_size(), dim=0)]
    output = torch.empty_like(parts[0])
    dist.reduce_scatter(output, parts)
    return output


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        return gathered(part)

    @staticmethod
    def backward(ctx, gradient):
        return reduce_scattered(gradient)


class ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, whole):
        return reduce_scattered(whole)

    @staticmethod
    def backward(ctx, gradient):
        return gathered(gradient)


class Replicated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone()
        dist.all_reduce(total)
        return total


def sequence_parallel(x, weight, column, row, inner):
    normed = nn.functional.rms_norm(x, weight.shape, Replicated.apply(weight))
    hidden = inner(nn.functional.linear(Gather.apply(normed), column))
    return x + ReduceScatter.apply(nn.functional.linear(hidden, row))


# %% wrong: reshaped_and_not_rearranged
# Gathers into one tensor and reshapes it to all tokens: sequences and ranks get mixed up.

def gathered(part):
    whole = part.new_empty(part.shape[0], part.shape[1] * dist.get_world_size(), part.shape[2])
    dist.all_gather_into_tensor(whole.view(-1, *part.shape[1:]), part.contiguous())
    return whole


def reduce_scattered(whole):
    parts = [part.contiguous() for part in whole.chunk(dist.get_world_size(), dim=1)]
    output = torch.empty_like(parts[0])
    dist.reduce_scatter(output, parts)
    return output


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        return gathered(part)

    @staticmethod
    def backward(ctx, gradient):
        return reduce_scattered(gradient)


class ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, whole):
        return reduce_scattered(whole)

    @staticmethod
    def backward(ctx, gradient):
        return gathered(gradient)


class Replicated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone()
        dist.all_reduce(total)
        return total


def sequence_parallel(x, weight, column, row, inner):
    normed = nn.functional.rms_norm(x, weight.shape, Replicated.apply(weight))
    hidden = inner(nn.functional.linear(Gather.apply(normed), column))
    return x + ReduceScatter.apply(nn.functional.linear(hidden, row))


# %% wrong: x_added_on_each_rank
# Adds x before the sum over ranks, so it counts P times.

def gathered(part):
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous())
    return torch.cat(parts, dim=1)


def reduce_scattered(whole):
    parts = [part.contiguous() for part in whole.chunk(dist.get_world_size(), dim=1)]
    output = torch.empty_like(parts[0])
    dist.reduce_scatter(output, parts)
    return output


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        return gathered(part)

    @staticmethod
    def backward(ctx, gradient):
        return reduce_scattered(gradient)


class ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, whole):
        return reduce_scattered(whole)

    @staticmethod
    def backward(ctx, gradient):
        return gathered(gradient)


class Replicated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone()
        dist.all_reduce(total)
        return total


def sequence_parallel(x, weight, column, row, inner):
    normed = nn.functional.rms_norm(x, weight.shape, Replicated.apply(weight))
    hidden = inner(nn.functional.linear(Gather.apply(normed), column))
    return ReduceScatter.apply(nn.functional.linear(hidden, row) + Gather.apply(x))


# %% wrong: sliced_without_a_sum
# Slices its own product and never adds those of the other ranks.

def gathered(part):
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous())
    return torch.cat(parts, dim=1)


def reduce_scattered(whole):
    parts = [part.contiguous() for part in whole.chunk(dist.get_world_size(), dim=1)]
    output = torch.empty_like(parts[0])
    dist.reduce_scatter(output, parts)
    return output


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        return gathered(part)

    @staticmethod
    def backward(ctx, gradient):
        return reduce_scattered(gradient)


class ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, whole):
        return reduce_scattered(whole)

    @staticmethod
    def backward(ctx, gradient):
        return gathered(gradient)


class Replicated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone()
        dist.all_reduce(total)
        return total


def sequence_parallel(x, weight, column, row, inner):
    normed = nn.functional.rms_norm(x, weight.shape, Replicated.apply(weight))
    hidden = inner(nn.functional.linear(Gather.apply(normed), column))
    return x + nn.functional.linear(hidden, row).chunk(dist.get_world_size(), dim=1)[dist.get_rank()]


# %% wrong: part_of_the_next_rank
# Scatters the parts one rank too far.

def gathered(part):
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous())
    return torch.cat(parts, dim=1)


def reduce_scattered(whole):
    parts = [part.contiguous() for part in whole.chunk(dist.get_world_size(), dim=1)]
    parts = parts[1:] + parts[:1]
    output = torch.empty_like(parts[0])
    dist.reduce_scatter(output, parts)
    return output


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        return gathered(part)

    @staticmethod
    def backward(ctx, gradient):
        return reduce_scattered(gradient)


class ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, whole):
        return reduce_scattered(whole)

    @staticmethod
    def backward(ctx, gradient):
        return gathered(gradient)


class Replicated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone()
        dist.all_reduce(total)
        return total


def sequence_parallel(x, weight, column, row, inner):
    normed = nn.functional.rms_norm(x, weight.shape, Replicated.apply(weight))
    hidden = inner(nn.functional.linear(Gather.apply(normed), column))
    return x + ReduceScatter.apply(nn.functional.linear(hidden, row))


# %% wrong: weights_gathered
# Gathers the weights and computes its own tokens with all of them.

def gathered(part):
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous())
    return torch.cat(parts, dim=1)


def reduce_scattered(whole):
    parts = [part.contiguous() for part in whole.chunk(dist.get_world_size(), dim=1)]
    output = torch.empty_like(parts[0])
    dist.reduce_scatter(output, parts)
    return output


def whole_of(part, dim):
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous())
    return torch.cat(parts, dim)


class GatherWeight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part, dim):
        ctx.dim = dim
        return whole_of(part, dim)

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total.chunk(dist.get_world_size(), ctx.dim)[dist.get_rank()], None


class Replicated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone()
        dist.all_reduce(total)
        return total


def sequence_parallel(x, weight, column, row, inner):
    normed = nn.functional.rms_norm(x, weight.shape, Replicated.apply(weight))
    hidden = inner(nn.functional.linear(normed, GatherWeight.apply(column, 0)))
    return x + nn.functional.linear(hidden, GatherWeight.apply(row, 1))


# %% wrong: hook_on_the_weight
# Puts a hook that adds up on the weight itself in each call: from the second call on, it adds up twice.

def gathered(part):
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part.contiguous())
    return torch.cat(parts, dim=1)


def reduce_scattered(whole):
    parts = [part.contiguous() for part in whole.chunk(dist.get_world_size(), dim=1)]
    output = torch.empty_like(parts[0])
    dist.reduce_scatter(output, parts)
    return output


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        return gathered(part)

    @staticmethod
    def backward(ctx, gradient):
        return reduce_scattered(gradient)


class ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, whole):
        return reduce_scattered(whole)

    @staticmethod
    def backward(ctx, gradient):
        return gathered(gradient)


def sequence_parallel(x, weight, column, row, inner):
    def add_up(gradient):
        total = gradient.clone()
        dist.all_reduce(total)
        return total

    weight.register_hook(add_up)
    normed = nn.functional.rms_norm(x, weight.shape, weight)
    hidden = inner(nn.functional.linear(Gather.apply(normed), column))
    return x + ReduceScatter.apply(nn.functional.linear(hidden, row))


# %% wrong: gradient_as_it_comes
# Thinks that a gradient is contiguous: that of a sum is one number, expanded.

def gathered(part):
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part)
    return torch.cat(parts, dim=1)


def reduce_scattered(whole):
    parts = [part.contiguous() for part in whole.chunk(dist.get_world_size(), dim=1)]
    output = torch.empty_like(parts[0])
    dist.reduce_scatter(output, parts)
    return output


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        return gathered(part.contiguous())

    @staticmethod
    def backward(ctx, gradient):
        return reduce_scattered(gradient)


class ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, whole):
        return reduce_scattered(whole)

    @staticmethod
    def backward(ctx, gradient):
        return gathered(gradient)


class Replicated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone()
        dist.all_reduce(total)
        return total


def sequence_parallel(x, weight, column, row, inner):
    normed = nn.functional.rms_norm(x, weight.shape, Replicated.apply(weight))
    hidden = inner(nn.functional.linear(Gather.apply(normed), column))
    return x + ReduceScatter.apply(nn.functional.linear(hidden, row))


# %% right: gathers_again
# Keeps its own tokens and gathers them once more in the backward pass, as Megatron does.

def gathered(part):
    part = part.contiguous()
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part)
    return torch.cat(parts, dim=1)


def reduce_scattered(whole):
    parts = [part.contiguous() for part in whole.chunk(dist.get_world_size(), dim=1)]
    output = torch.empty_like(parts[0])
    dist.reduce_scatter(output, parts)
    return output


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        return gathered(part)

    @staticmethod
    def backward(ctx, gradient):
        return reduce_scattered(gradient)


class ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, whole):
        return reduce_scattered(whole)

    @staticmethod
    def backward(ctx, gradient):
        return gathered(gradient)


class Replicated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone()
        dist.all_reduce(total)
        return total


class GatherAndMultiply(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part, column):
        ctx.save_for_backward(part, column)
        return nn.functional.linear(gathered(part), column)

    @staticmethod
    def backward(ctx, gradient):
        part, column = ctx.saved_tensors
        whole = gathered(part)
        of_part = reduce_scattered(gradient @ column)
        return of_part, gradient.flatten(0, 1).t() @ whole.flatten(0, 1)


def sequence_parallel(x, weight, column, row, inner):
    normed = nn.functional.rms_norm(x, weight.shape, Replicated.apply(weight))
    hidden = inner(GatherAndMultiply.apply(normed, column))
    return x + ReduceScatter.apply(nn.functional.linear(hidden, row))


# %% right: into_one_tensor
# all_gather_into_tensor and reduce_scatter_tensor with the tokens first, a norm by hand, and a hook on a view of the
# weight.

class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        return gathered(part)

    @staticmethod
    def backward(ctx, gradient):
        return reduce_scattered(gradient)


class ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, whole):
        return reduce_scattered(whole)

    @staticmethod
    def backward(ctx, gradient):
        return gathered(gradient)


def gathered(part):
    part = part.transpose(0, 1).contiguous()
    whole = part.new_empty(part.shape[0] * dist.get_world_size(), *part.shape[1:])
    dist.all_gather_into_tensor(whole, part)
    return whole.transpose(0, 1)


def reduce_scattered(whole):
    whole = whole.transpose(0, 1).contiguous()
    part = whole.new_empty(whole.shape[0] // dist.get_world_size(), *whole.shape[1:])
    dist.reduce_scatter_tensor(part, whole)
    return part.transpose(0, 1)


def added_up(gradient):
    total = gradient.clone()
    dist.all_reduce(total)
    return total


def sequence_parallel(x, weight, column, row, inner):
    shared = weight.view_as(weight)
    if shared.requires_grad:
        shared.register_hook(added_up)
    eps = torch.finfo(x.dtype).eps
    normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * shared
    output = torch.matmul(inner(torch.matmul(Gather.apply(normed), column.t())), row.t())
    return ReduceScatter.apply(output) + x


# %% right: functional_with_autograd
# Functional collectives that have a gradient.

class Replicated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx, gradient):
        total = gradient.clone()
        dist.all_reduce(total)
        return total


import torch.distributed._functional_collectives as functional


def sequence_parallel(x, weight, column, row, inner):
    group = dist.group.WORLD
    normed = nn.functional.rms_norm(x, weight.shape, Replicated.apply(weight)).transpose(0, 1).contiguous()
    whole = functional.all_gather_tensor_autograd(normed, 0, group).transpose(0, 1)
    output = nn.functional.linear(inner(nn.functional.linear(whole, column)), row).transpose(0, 1).contiguous()
    return x + functional.reduce_scatter_tensor_autograd(output, "sum", 0, group).transpose(0, 1)
