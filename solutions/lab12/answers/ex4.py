# %% wrong: saved_by_autograd
# All-gathers, computes and deletes the name; autograd has saved the whole weight for the backward pass.

class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        self.shape = linear.weight.shape
        pieces = linear.weight.detach().flatten().tensor_split(len(devices))
        self.weights = nn.ParameterList([p.to(d) for p, d in zip(pieces, devices)])
        self.biases = nn.ParameterList([p.to(d) for p, d in zip(linear.bias.detach().tensor_split(len(devices)), devices)])

    def forward(self, xs):
        outputs = []
        for x in xs:
            weight = torch.cat([s.to(x.device) for s in self.weights]).view(self.shape)
            bias = torch.cat([s.to(x.device) for s in self.biases])
            output = nn.functional.linear(x, weight, bias)
            if output.requires_grad:
                output.register_hook(lambda g: g / len(xs))
            outputs.append(output)
            del weight, bias
        return outputs


# %% wrong: saved_by_autograd_and_averaged
# The same, where the gradients of the weights are averaged rightly.

class Mean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard, device, count):
        ctx.home, ctx.count = shard.device, count
        return shard.to(device, copy=True)

    @staticmethod
    def backward(ctx, gradient):
        return (gradient / ctx.count).to(ctx.home), None, None


class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        self.shape, self.count = linear.weight.shape, len(devices)
        pieces = linear.weight.detach().flatten().tensor_split(len(devices))
        self.weights = nn.ParameterList([p.to(d) for p, d in zip(pieces, devices)])
        self.biases = nn.ParameterList([p.to(d) for p, d in zip(linear.bias.detach().tensor_split(len(devices)), devices)])

    def forward(self, xs):
        outputs = []
        for x in xs:
            weight = torch.cat([Mean.apply(s, x.device, self.count) for s in self.weights]).view(self.shape)
            bias = torch.cat([Mean.apply(s, x.device, self.count) for s in self.biases])
            outputs.append(nn.functional.linear(x, weight, bias))
        return outputs


# %% wrong: gathered_once_and_kept
# Keeps what it has gathered for the backward pass, in ctx.

class Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shape, *shards):
        ctx.devices = [s.device for s in shards]
        flat = torch.cat([s.to(x.device) for s in shards])
        weight, bias = flat[: -shape[0]].view(shape), flat[-shape[0] :]
        ctx.save_for_backward(x, weight)
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        whole = torch.cat([(gradient.T @ x).flatten(), gradient.sum(0)]) / len(ctx.devices)
        pieces = whole.tensor_split(len(ctx.devices))
        return gradient @ weight, None, *[p.to(d) for p, d in zip(pieces, ctx.devices)]


class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        self.shape = linear.weight.shape
        flat = torch.cat([linear.weight.detach().flatten(), linear.bias.detach()])
        self.shards = nn.ParameterList([s.to(d) for s, d in zip(flat.tensor_split(len(devices)), devices)])

    def forward(self, xs):
        return [Gathered.apply(x, self.shape, *self.shards) for x in xs]


# %% wrong: never_freed
# Keeps the gathered weights on the layer, to gather them less often: the shards are trained and the copies are old.

class Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, flat, shape, *shards):
        ctx.flat, ctx.shape = flat, shape
        ctx.devices = [s.device for s in shards]
        ctx.save_for_backward(x)
        return nn.functional.linear(x, flat[: -shape[0]].view(shape), flat[-shape[0] :])

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        weight = ctx.flat[: -ctx.shape[0]].view(ctx.shape)
        whole = torch.cat([(gradient.T @ x).flatten(), gradient.sum(0)]) / len(ctx.devices)
        return gradient @ weight, None, None, *[p.to(d) for p, d in zip(whole.tensor_split(len(ctx.devices)), ctx.devices)]


class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        self.shape, self.gathered = linear.weight.shape, {}
        flat = torch.cat([linear.weight.detach().flatten(), linear.bias.detach()])
        self.shards = nn.ParameterList([s.to(d) for s, d in zip(flat.tensor_split(len(devices)), devices)])

    def forward(self, xs):
        for x in xs:
            if x.device not in self.gathered:
                self.gathered[x.device] = torch.cat([s.detach().to(x.device) for s in self.shards])
        return [Gathered.apply(x, self.gathered[x.device], self.shape, *self.shards) for x in xs]


# %% wrong: sum_for_mean
# Adds the gradients of the shares, each of which is a mean, and does not divide.

class Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shape, *shards):
        ctx.shape = shape
        ctx.save_for_backward(x, *shards)
        flat = torch.cat([s.to(x.device) for s in shards])
        return nn.functional.linear(x, flat[: -shape[0]].view(shape), flat[-shape[0] :])

    @staticmethod
    def backward(ctx, gradient):
        x, *shards = ctx.saved_tensors
        weight = torch.cat([s.to(x.device) for s in shards])[: -ctx.shape[0]].view(ctx.shape)
        to_x = gradient @ weight
        del weight
        pieces = torch.cat([(gradient.T @ x).flatten(), gradient.sum(0)]).tensor_split(len(shards))
        return to_x, None, *[p.to(s.device) for p, s in zip(pieces, shards)]


class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        self.shape = linear.weight.shape
        flat = torch.cat([linear.weight.detach().flatten(), linear.bias.detach()])
        self.shards = nn.ParameterList([s.to(d) for s, d in zip(flat.tensor_split(len(devices)), devices)])

    def forward(self, xs):
        return [Gathered.apply(x, self.shape, *self.shards) for x in xs]


# %% wrong: mean_for_the_bias
# Thinks of the loss, a mean over the samples, and takes the mean over the samples for the bias once more.

class Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shape, *shards):
        ctx.shape = shape
        ctx.save_for_backward(x, *shards)
        flat = torch.cat([s.to(x.device) for s in shards])
        return nn.functional.linear(x, flat[: -shape[0]].view(shape), flat[-shape[0] :])

    @staticmethod
    def backward(ctx, gradient):
        x, *shards = ctx.saved_tensors
        weight = torch.cat([s.to(x.device) for s in shards])[: -ctx.shape[0]].view(ctx.shape)
        to_x = gradient @ weight
        del weight
        pieces = torch.cat([(gradient.T @ x).flatten(), gradient.mean(0)]).tensor_split(len(shards))
        return to_x, None, *[p.to(s.device) / len(shards) for p, s in zip(pieces, shards)]


class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        self.shape = linear.weight.shape
        flat = torch.cat([linear.weight.detach().flatten(), linear.bias.detach()])
        self.shards = nn.ParameterList([s.to(d) for s, d in zip(flat.tensor_split(len(devices)), devices)])

    def forward(self, xs):
        return [Gathered.apply(x, self.shape, *self.shards) for x in xs]


# %% wrong: everything_divided
# Divides the gradient that comes in, so that the layers before get less and less.

class Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shape, *shards):
        ctx.shape = shape
        ctx.save_for_backward(x, *shards)
        flat = torch.cat([s.to(x.device) for s in shards])
        return nn.functional.linear(x, flat[: -shape[0]].view(shape), flat[-shape[0] :])

    @staticmethod
    def backward(ctx, gradient):
        x, *shards = ctx.saved_tensors
        gradient = gradient / len(shards)
        weight = torch.cat([s.to(x.device) for s in shards])[: -ctx.shape[0]].view(ctx.shape)
        to_x = gradient @ weight
        pieces = torch.cat([(gradient.T @ x).flatten(), gradient.sum(0)]).tensor_split(len(shards))
        return to_x, None, *[p.to(s.device) for p, s in zip(pieces, shards)]


class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        self.shape = linear.weight.shape
        flat = torch.cat([linear.weight.detach().flatten(), linear.bias.detach()])
        self.shards = nn.ParameterList([s.to(d) for s, d in zip(flat.tensor_split(len(devices)), devices)])

    def forward(self, xs):
        return [Gathered.apply(x, self.shape, *self.shards) for x in xs]


# %% wrong: own_gradient_only
# Keeps its own piece of its own share's gradient: nothing is added up.

class Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shape, *shards):
        ctx.shape = shape
        ctx.save_for_backward(x, *shards)
        flat = torch.cat([s.to(x.device) for s in shards])
        return nn.functional.linear(x, flat[: -shape[0]].view(shape), flat[-shape[0] :])

    @staticmethod
    def backward(ctx, gradient):
        x, *shards = ctx.saved_tensors
        weight = torch.cat([s.to(x.device) for s in shards])[: -ctx.shape[0]].view(ctx.shape)
        to_x = gradient @ weight
        pieces = torch.cat([(gradient.T @ x).flatten(), gradient.sum(0)]).tensor_split(len(shards))
        return to_x, None, *[p if p.device == s.device else None for p, s in zip(pieces, shards)]


class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        self.shape = linear.weight.shape
        flat = torch.cat([linear.weight.detach().flatten(), linear.bias.detach()])
        self.shards = nn.ParameterList([s.to(d) for s, d in zip(flat.tensor_split(len(devices)), devices)])

    def forward(self, xs):
        return [Gathered.apply(x, self.shape, *self.shards) for x in xs]


# %% wrong: shards_get_no_gradient
# Gathers from detached shards: the gathered weight is no part of any graph, and the shards learn nothing.

class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        self.shape = linear.weight.shape
        flat = torch.cat([linear.weight.detach().flatten(), linear.bias.detach()])
        self.shards = nn.ParameterList([s.to(d) for s, d in zip(flat.tensor_split(len(devices)), devices)])

    def forward(self, xs):
        outputs = []
        for x in xs:
            with torch.no_grad():
                flat = torch.cat([s.to(x.device) for s in self.shards])
            outputs.append(nn.functional.linear(x, flat[: -self.shape[0]].view(self.shape), flat[-self.shape[0] :]))
        return outputs


# %% wrong: computed_again
# Runs the whole layer again in backward, to let autograd find the gradients: the all-gather and the product, too.

class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shape, *shards):
        ctx.shape = shape
        ctx.save_for_backward(x, *shards)
        flat = torch.cat([s.to(x.device) for s in shards])
        return nn.functional.linear(x, flat[: -shape[0]].view(shape), flat[-shape[0] :])

    @staticmethod
    def backward(ctx, gradient):
        x, *shards = ctx.saved_tensors
        shape, count = ctx.shape, len(shards)
        x = x.detach().requires_grad_()
        flat = torch.cat([s.detach().to(x.device) for s in shards]).requires_grad_()
        with torch.enable_grad():
            output = nn.functional.linear(x, flat[: -shape[0]].view(shape), flat[-shape[0] :])
        to_x, whole = torch.autograd.grad(output, (x, flat), gradient)
        pieces = (whole / count).tensor_split(count)
        return to_x, None, *[p.to(s.device) for p, s in zip(pieces, shards)]


class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        self.shape = linear.weight.shape
        flat = torch.cat([linear.weight.detach().flatten(), linear.bias.detach()])
        self.shards = nn.ParameterList([s.to(d) for s, d in zip(flat.tensor_split(len(devices)), devices)])

    def forward(self, xs):
        return [Again.apply(x, self.shape, *self.shards) for x in xs]


# %% wrong: whole_weight_on_the_first
# Keeps the layer on the first device, and sends it to the others when they need it.

class Sent(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, count):
        ctx.count = count
        ctx.save_for_backward(x, weight)
        return nn.functional.linear(x, weight.to(x.device), bias.to(x.device))

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        to_w, to_b = gradient.T @ x / ctx.count, gradient.sum(0) / ctx.count
        return gradient @ weight.to(x.device), to_w.to(weight.device), to_b.to(weight.device), None


class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        self.weight = nn.Parameter(linear.weight.detach().to(devices[0]))
        self.bias = nn.Parameter(linear.bias.detach().to(devices[0]))

    def forward(self, xs):
        return [Sent.apply(x, self.weight, self.bias, len(xs)) for x in xs]


# %% wrong: reduced_to_everybody
# Adds up the whole gradient on all devices, and each takes its piece of that.

class Together(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shape, count, *tensors):
        xs, shards = tensors[:count], tensors[count:]
        ctx.shape, ctx.count = shape, count
        ctx.save_for_backward(*tensors)
        outputs = []
        for x in xs:
            flat = torch.cat([s.to(x.device) for s in shards])
            outputs.append(nn.functional.linear(x, flat[: -shape[0]].view(shape), flat[-shape[0] :]))
        return tuple(outputs)

    @staticmethod
    def backward(ctx, *gradients):
        xs, shards = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
        to_xs, wholes = [], []
        for x, g in zip(xs, gradients):
            flat = torch.cat([s.to(x.device) for s in shards])
            to_xs.append(g @ flat[: -ctx.shape[0]].view(ctx.shape))
            del flat
            wholes.append(torch.cat([(g.T @ x).flatten(), g.sum(0)]))
        sums = all_reduce(wholes)
        pieces = [(total / ctx.count).tensor_split(ctx.count)[n].clone() for n, total in enumerate(sums)]
        return None, None, *to_xs, *pieces


class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        self.shape = linear.weight.shape
        flat = torch.cat([linear.weight.detach().flatten(), linear.bias.detach()])
        self.shards = nn.ParameterList([s.to(d) for s, d in zip(flat.tensor_split(len(devices)), devices)])

    def forward(self, xs):
        return list(Together.apply(self.shape, len(xs), *xs, *self.shards))


# %% wrong: shards_are_views_of_the_whole
# Cuts after moving: each shard is a view of a whole weight that its device then keeps.

class Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shape, *shards):
        ctx.shape = shape
        ctx.save_for_backward(x, *shards)
        flat = torch.cat([s.to(x.device) for s in shards])
        return nn.functional.linear(x, flat[: -shape[0]].view(shape), flat[-shape[0] :])

    @staticmethod
    def backward(ctx, gradient):
        x, *shards = ctx.saved_tensors
        weight = torch.cat([s.to(x.device) for s in shards])[: -ctx.shape[0]].view(ctx.shape)
        to_x = gradient @ weight
        del weight
        pieces = torch.cat([(gradient.T @ x).flatten(), gradient.sum(0)]).tensor_split(len(shards))
        return to_x, None, *[p.to(s.device) / len(shards) for p, s in zip(pieces, shards)]


class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        self.shape = linear.weight.shape
        flat = torch.cat([linear.weight.detach().flatten(), linear.bias.detach()])
        self.shards = nn.ParameterList([flat.to(d).tensor_split(len(devices))[n] for n, d in enumerate(devices)])

    def forward(self, xs):
        return [Gathered.apply(x, self.shape, *self.shards) for x in xs]


# %% wrong: rows_sent_to_the_shards
# Sends each share to all shards and all-gathers the outputs, as in exercise 2: there are fewer samples than weights.

class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        pieces = linear.weight.detach().tensor_split(len(devices)), linear.bias.detach().tensor_split(len(devices))
        self.weights, self.biases = (nn.ParameterList([p.to(d) for p, d in zip(own, devices)]) for own in pieces)
        for parameter in self.parameters():
            parameter.register_hook(lambda gradient: gradient / len(devices))

    def forward(self, xs):
        outputs = []
        for x in xs:
            layers = zip(self.weights, self.biases)
            parts = [nn.functional.linear(x.to(weight.device), weight, bias) for weight, bias in layers]
            outputs.append(torch.cat([part.to(x.device) for part in parts], 1))
        return outputs


# %% wrong: gathered_weight_kept_on_the_cpu
# Has no second all-gather: what autograd saves of the whole weight is on the CPU until the backward pass.

class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        self.shape = linear.weight.shape
        flat = torch.cat([linear.weight.detach().flatten(), linear.bias.detach()])
        self.shards = nn.ParameterList([s.to(d) for s, d in zip(flat.tensor_split(len(devices)), devices)])
        for shard in self.shards:
            shard.register_hook(lambda gradient: gradient / len(devices))

    def forward(self, xs):
        outputs = []
        for x in xs:
            whole = torch.cat([shard.to(x.device) for shard in self.shards])
            memory = whole.untyped_storage().data_ptr()

            def away(tensor, memory=memory):
                return tensor.cpu() if tensor.untyped_storage().data_ptr() == memory else tensor

            with torch.autograd.graph.saved_tensors_hooks(away, lambda tensor, device=x.device: tensor.to(device)):
                weight, bias = whole[: -self.shape[0]].view(self.shape), whole[-self.shape[0] :]
                outputs.append(nn.functional.linear(x, weight, bias))
            del whole, weight, bias
        return outputs


# %% wrong: bias_on_the_last
# Cuts the weight, and gives the bias, which is small, to the last device.

class Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shape, *shards):
        ctx.shape = shape
        ctx.save_for_backward(x, *shards)
        flat = torch.cat([s.to(x.device) for s in shards])
        return nn.functional.linear(x, flat[: -shape[0]].view(shape), flat[-shape[0] :])

    @staticmethod
    def backward(ctx, gradient):
        x, *shards = ctx.saved_tensors
        weight = torch.cat([s.to(x.device) for s in shards])[: -ctx.shape[0]].view(ctx.shape)
        to_x = gradient @ weight
        del weight
        pieces = torch.cat([(gradient.T @ x).flatten(), gradient.sum(0)]).split([s.numel() for s in shards])
        return to_x, None, *[p.to(s.device) / len(shards) for p, s in zip(pieces, shards)]


class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        self.shape = linear.weight.shape
        pieces = list(linear.weight.detach().flatten().tensor_split(len(devices)))
        pieces[-1] = torch.cat([pieces[-1], linear.bias.detach()])
        self.shards = nn.ParameterList([s.to(d) for s, d in zip(pieces, devices)])

    def forward(self, xs):
        return [Gathered.apply(x, self.shape, *self.shards) for x in xs]


# %% right: gathers_again_in_a_function
# An autograd.Function for each device: it saves the share and the shards, and all-gathers in both passes.

class Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shape, *shards):
        ctx.shape = shape
        ctx.save_for_backward(x, *shards)
        flat = torch.cat([s.to(x.device) for s in shards])
        return nn.functional.linear(x, flat[: -shape[0]].view(shape), flat[-shape[0] :])

    @staticmethod
    def backward(ctx, gradient):
        x, *shards = ctx.saved_tensors
        weight = torch.cat([s.to(x.device) for s in shards])[: -ctx.shape[0]].view(ctx.shape)
        to_x = gradient @ weight
        del weight
        pieces = torch.cat([(gradient.T @ x).flatten(), gradient.sum(0)]).tensor_split(len(shards))
        return to_x, None, *[p.to(s.device) / len(shards) for p, s in zip(pieces, shards)]


class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        self.shape = linear.weight.shape
        flat = torch.cat([linear.weight.detach().flatten(), linear.bias.detach()])
        self.shards = nn.ParameterList([s.to(d) for s, d in zip(flat.tensor_split(len(devices)), devices)])

    def forward(self, xs):
        return [Gathered.apply(x, self.shape, *self.shards) for x in xs]


# %% right: saved_tensors_hooks
# Ordinary layers; what autograd would save of the gathered weight is packed as a note, and unpacked by another all-gather.

from torch.autograd.graph import saved_tensors_hooks


class Mean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard, device, count):
        ctx.home, ctx.count = shard.device, count
        return shard.to(device, copy=True)

    @staticmethod
    def backward(ctx, gradient):
        return (gradient / ctx.count).to(ctx.home), None, None


class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        count = len(devices)
        self.rows = nn.ParameterList([r.to(d) for r, d in zip(linear.weight.detach().tensor_split(count), devices)])
        self.biases = nn.ParameterList([b.to(d) for b, d in zip(linear.bias.detach().tensor_split(count), devices)])

    def forward(self, xs):
        outputs = []
        for x in xs:
            weight = torch.cat([Mean.apply(r, x.device, len(xs)) for r in self.rows])
            bias = torch.cat([Mean.apply(b, x.device, len(xs)) for b in self.biases])
            device = x.device

            def pack(tensor, x=x):
                if tensor.untyped_storage().data_ptr() == x.untyped_storage().data_ptr():
                    return tensor
                return "as it was" if tensor.is_contiguous() else "transposed"

            def unpack(packed, device=device):
                if isinstance(packed, torch.Tensor):
                    return packed
                weight = torch.cat([r.detach().to(device) for r in self.rows])
                return weight if packed == "as it was" else weight.T

            with saved_tensors_hooks(pack, unpack):
                outputs.append(nn.functional.linear(x, weight, bias))
        return outputs


# %% right: resized_storage
# As PyTorch's own first FSDP: the gathered weight stays, its storage is emptied, and a hook fills it again.

class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        self.shape = linear.weight.shape
        flat = torch.cat([linear.weight.detach().flatten(), linear.bias.detach()])
        self.shards = nn.ParameterList([s.to(d) for s, d in zip(flat.tensor_split(len(devices)), devices)])

    def gather(self, device):
        return torch.cat([s.detach().to(device) for s in self.shards])

    def forward(self, xs):
        return [self.one(x) for x in xs]

    def one(self, x):
        flat = self.gather(x.device).requires_grad_()
        size = flat.untyped_storage().nbytes()
        output = nn.functional.linear(x, flat[: -self.shape[0]].view(self.shape), flat[-self.shape[0] :])
        if not output.requires_grad:
            return output
        flat.untyped_storage().resize_(0)

        def fill(gradient):
            flat.untyped_storage().resize_(size)
            flat.data.copy_(self.gather(x.device))

        def scatter(flat):
            for shard, piece in zip(self.shards, flat.grad.tensor_split(len(self.shards))):
                piece = piece.to(shard.device) / len(self.shards)
                shard.grad = piece if shard.grad is None else shard.grad + piece
            flat.grad = None
            flat.untyped_storage().resize_(0)

        output.register_hook(fill)
        flat.register_post_accumulate_grad_hook(scatter)
        return output


# %% right: all_devices_in_one_function
# One autograd.Function for all devices, with padded shards in one parameter each, and the sum made where the shard is.

class Together(torch.autograd.Function):
    @staticmethod
    def forward(ctx, layer, count, *tensors):
        ctx.layer, ctx.count = layer, count
        ctx.save_for_backward(*tensors[:count])
        outputs = []
        for x in tensors[:count]:
            weight, bias = layer.gathered(x.device)
            outputs.append(x @ weight.T + bias)
            del weight, bias
        return tuple(outputs)

    @staticmethod
    def backward(ctx, *gradients):
        layer, to_xs, wholes = ctx.layer, [], []
        for x, g in zip(ctx.saved_tensors, gradients):
            weight, _ = layer.gathered(x.device)
            to_xs.append(g @ weight)
            del weight, _
            whole = torch.cat([(g.T @ x).flatten(), g.sum(0)])
            wholes.append(nn.functional.pad(whole, (0, layer.padding)).chunk(ctx.count))
            del whole
        sums = []
        for n, shard in enumerate(layer.shards):
            total = torch.zeros_like(shard)
            for pieces in wholes:
                total += pieces[n].to(shard.device)
            sums.append(total / ctx.count)
        return None, None, *to_xs, *sums


class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        self.out, self.ins = linear.weight.shape
        flat = torch.cat([linear.weight.detach().flatten(), linear.bias.detach()])
        self.numbers = flat.numel()
        self.padding = -flat.numel() % len(devices)
        flat = nn.functional.pad(flat, (0, self.padding))
        self.shards = nn.ParameterList([s.to(d) for s, d in zip(flat.chunk(len(devices)), devices)])

    def gathered(self, device):
        flat = torch.cat([s.detach().to(device) for s in self.shards])[: self.numbers]
        return flat[: self.out * self.ins].view(self.out, self.ins), flat[self.out * self.ins :]

    def forward(self, xs):
        return Together.apply(self, len(xs), *xs, *self.shards)


# %% right: a_checkpoint_that_stops_early
# A checkpoint all-gathers again, and stops before the product: all that backward needs is there by then.

from torch.utils.checkpoint import checkpoint


class Mean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard, device, count):
        ctx.home, ctx.count = shard.device, count
        return shard.to(device, copy=True)

    @staticmethod
    def backward(ctx, gradient):
        return (gradient / ctx.count).to(ctx.home), None, None


class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        self.shape = linear.weight.shape
        flat = torch.cat([linear.weight.detach().flatten(), linear.bias.detach()])
        self.shards = nn.ParameterList([s.to(d) for s, d in zip(flat.tensor_split(len(devices)), devices)])

    def compute(self, x, *shards):
        flat = torch.cat([Mean.apply(s, x.device, len(shards)) for s in shards])
        return nn.functional.linear(x, flat[: -self.shape[0]].view(self.shape), flat[-self.shape[0] :])

    def forward(self, xs):
        return [checkpoint(self.compute, x, *self.shards, use_reentrant=False) for x in xs]


# %% right: weight_and_bias_apart
# Cuts the weight by its rows of outputs, and the bias by itself: a shard has a row of numbers for each of its outputs.

class Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shape, *shards):
        ctx.shape = shape
        ctx.save_for_backward(x, *shards)
        whole = torch.cat([s.to(x.device) for s in shards])[: shape[0]]
        return nn.functional.linear(x, whole[:, :-1], whole[:, -1])

    @staticmethod
    def backward(ctx, gradient):
        x, *shards = ctx.saved_tensors
        weight = torch.cat([s.to(x.device) for s in shards])[:, :-1]
        to_x = gradient @ weight
        del weight
        pieces = torch.cat([gradient.T @ x, gradient.sum(0)[:, None]], 1).tensor_split(len(shards))
        return to_x, None, *[p.to(s.device) / len(shards) for p, s in zip(pieces, shards)]


class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        self.shape = linear.weight.shape
        rows = torch.cat([linear.weight.detach(), linear.bias.detach()[:, None]], 1).tensor_split(len(devices))
        self.shards = nn.ParameterList([own.to(device) for own, device in zip(rows, devices)])

    def forward(self, xs):
        return [Gathered.apply(x, self.shape, *self.shards) for x in xs]


# %% wrong: one_row_is_no_matrix
# Takes a share of one sample for a vector, and loses a dimension.

class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        self.shape = linear.weight.shape
        flat = torch.cat([linear.weight.detach().flatten(), linear.bias.detach()])
        pieces = zip(flat.tensor_split(len(devices)), devices, strict=True)
        self.shards = nn.ParameterList([piece.to(device) for piece, device in pieces])

    def forward(self, xs):
        return [Gathered.apply(x, self.shape, *self.shards).squeeze() for x in xs]


def gathered(shards, shape, device):
    flat = torch.cat([shard.to(device) for shard in shards])
    return flat[: -shape[0]].view(shape), flat[-shape[0] :]


class Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shape, *shards):
        ctx.shape = shape
        ctx.save_for_backward(x, *shards)
        return nn.functional.linear(x, *gathered(shards, shape, x.device))

    @staticmethod
    def backward(ctx, gradient):
        x, *shards = ctx.saved_tensors
        to_x = gradient @ gathered(shards, ctx.shape, x.device)[0]
        whole = torch.cat([(gradient.T @ x).flatten(), gradient.sum(0)]) / len(shards)
        pieces = zip(whole.tensor_split(len(shards)), shards, strict=True)
        return to_x, None, *(piece.to(shard.device) for piece, shard in pieces)


# %% wrong: half_of_the_sum
# Divides the gradients by two, the number of devices in the trials.

class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        self.shape = linear.weight.shape
        flat = torch.cat([linear.weight.detach().flatten(), linear.bias.detach()])
        pieces = zip(flat.tensor_split(len(devices)), devices, strict=True)
        self.shards = nn.ParameterList([piece.to(device) for piece, device in pieces])

    def forward(self, xs):
        return [Gathered.apply(x, self.shape, *self.shards) for x in xs]


def gathered(shards, shape, device):
    flat = torch.cat([shard.to(device) for shard in shards])
    return flat[: -shape[0]].view(shape), flat[-shape[0] :]


class Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shape, *shards):
        ctx.shape = shape
        ctx.save_for_backward(x, *shards)
        return nn.functional.linear(x, *gathered(shards, shape, x.device))

    @staticmethod
    def backward(ctx, gradient):
        x, *shards = ctx.saved_tensors
        to_x = gradient @ gathered(shards, ctx.shape, x.device)[0]
        whole = torch.cat([(gradient.T @ x).flatten(), gradient.sum(0)]) / 2
        pieces = zip(whole.tensor_split(len(shards)), shards, strict=True)
        return to_x, None, *(piece.to(shard.device) for piece, shard in pieces)


# %% wrong: padded_per_row
# Gives each device whole rows, and pads the weight with rows of zeros where N does not divide them.

class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shape, *shards):
        ctx.shape = shape
        return tuple(gathered(shards, shape, s.device) for s in shards)

    @staticmethod
    def backward(ctx, *gradients):
        n = len(gradients)
        size = -(-ctx.shape[0] // n) * (ctx.shape.numel() // ctx.shape[0])
        parts = [nn.functional.pad(g.flatten(), (0, n * size - g.numel())).chunk(n) for g in gradients]
        found = []
        for j, g in enumerate(gradients):
            found.append(sum(parts[i][j].to(g.device) for i in range(n)) / n)
        return None, *found


def gathered(shards, shape, device):
    return torch.cat([s.detach().to(device) for s in shards])[: shape.numel()].reshape(shape)


class ShardedLinear(nn.Module):
    def __init__(self, linear, devices):
        super().__init__()
        self.devices = devices
        self.shapes = linear.weight.shape, linear.bias.shape
        self.weights = self.split(linear.weight)
        self.biases = self.split(linear.bias)

    def split(self, whole):
        n = len(self.devices)
        size = -(-whole.shape[0] // n) * (whole.numel() // whole.shape[0])
        padded = torch.zeros(n * size)
        padded[: whole.numel()] = whole.detach().flatten()
        return nn.ParameterList([nn.Parameter(padded[i * size : (i + 1) * size].to(d, copy=True)) for i, d in enumerate(self.devices)])

    def forward(self, xs):
        weights = Gather.apply(self.shapes[0], *self.weights)
        biases = Gather.apply(self.shapes[1], *self.biases)
        places = {w.untyped_storage().data_ptr(): w.device for w in weights}

        def pack(tensor):
            device = places.get(tensor.untyped_storage().data_ptr())
            if device is None:
                return tensor
            return device, tensor.size(), tensor.stride(), tensor.storage_offset()

        def unpack(packed):
            if isinstance(packed, torch.Tensor):
                return packed
            device, *view = packed
            return gathered(list(self.weights), self.shapes[0], device).as_strided(*view)

        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            return [nn.functional.linear(x, w, b) for x, w, b in zip(xs, weights, biases, strict=True)]
