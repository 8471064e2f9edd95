# %% wrong: wrong_dimension_of_the_weight
# Forgets that nn.Linear keeps its weight as (outputs, inputs), and cuts the first layer by columns of the tensor.

class AddUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *partial):
        return tuple(all_reduce(partial))

    @staticmethod
    def backward(ctx, *gradients):
        return gradients


class CopyIn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *xs):
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx, *gradients):
        return tuple(all_reduce(gradients))


class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()
        p = len(devices)
        cut = lambda tensor, dim: [nn.Parameter(c.detach().clone().to(d)) for c, d in zip(tensor.chunk(p, dim), devices)]
        self.w1 = nn.ParameterList(cut(first.weight, 1))
        self.b1 = nn.ParameterList(cut(first.bias, 0))
        self.w2 = nn.ParameterList(cut(last.weight, 0))
        self.b2 = nn.Parameter(last.bias.detach().clone().to(devices[0]))

    def forward(self, xs):
        partial = []
        for i, x in enumerate(CopyIn.apply(*xs)):
            h = nn.functional.gelu(nn.functional.linear(x, self.w1[i], self.b1[i]))
            partial.append(nn.functional.linear(h, self.w2[i], self.b2 if i == 0 else None))
        return list(AddUp.apply(*partial))


# %% wrong: bias_on_every_device
# Gives each device's second layer the bias, so that the sum has it N times.

class AddUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *partial):
        return tuple(all_reduce(list(partial)))

    @staticmethod
    def backward(ctx, *gradients):
        return gradients


class CopyIn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *xs):
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx, *gradients):
        return tuple(all_reduce(list(gradients)))


class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()
        count = len(devices)
        self.first, self.last = nn.ModuleList(), nn.ModuleList()
        for n, device in enumerate(devices):
            column = nn.Linear(first.in_features, first.out_features // count)
            row = nn.Linear(last.in_features // count, last.out_features)
            with torch.no_grad():
                column.weight.copy_(first.weight.chunk(count)[n])
                column.bias.copy_(first.bias.chunk(count)[n])
                row.weight.copy_(last.weight.chunk(count, dim=1)[n])
                row.bias.copy_(last.bias)
            self.first.append(column.to(device))
            self.last.append(row.to(device))

    def forward(self, xs):
        xs = CopyIn.apply(*xs)
        hidden = [nn.functional.gelu(layer(x)) for layer, x in zip(self.first, xs)]
        return list(AddUp.apply(*[layer(h) for layer, h in zip(self.last, hidden)]))


# %% wrong: a_share_of_the_bias_on_every_device
# Divides the bias by N for each device: the sum is right, and every share then gets the whole gradient.

class AddUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *partial):
        return tuple(all_reduce(list(partial)))

    @staticmethod
    def backward(ctx, *gradients):
        return gradients


class CopyIn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *xs):
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx, *gradients):
        return tuple(all_reduce(list(gradients)))


class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()
        count = len(devices)
        self.first, self.last = nn.ModuleList(), nn.ModuleList()
        for n, device in enumerate(devices):
            column = nn.Linear(first.in_features, first.out_features // count)
            row = nn.Linear(last.in_features // count, last.out_features)
            with torch.no_grad():
                column.weight.copy_(first.weight.chunk(count)[n])
                column.bias.copy_(first.bias.chunk(count)[n])
                row.weight.copy_(last.weight.chunk(count, dim=1)[n])
                row.bias.copy_(last.bias / count)
            self.first.append(column.to(device))
            self.last.append(row.to(device))

    def forward(self, xs):
        xs = CopyIn.apply(*xs)
        hidden = [nn.functional.gelu(layer(x)) for layer, x in zip(self.first, xs)]
        return list(AddUp.apply(*[layer(h) for layer, h in zip(self.last, hidden)]))


# %% wrong: autograd_through_the_sum
# Lets autograd go back through all_reduce: every device's gradient reaches every share, N times in all.

class CopyIn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *xs):
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx, *gradients):
        return tuple(all_reduce(list(gradients)))


class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()
        count = len(devices)
        self.weight1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.weight.chunk(count), devices)])
        self.bias1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.bias.chunk(count), devices)])
        self.weight2 = nn.ParameterList([p.detach().to(d) for p, d in zip(last.weight.chunk(count, 1), devices)])
        self.bias2 = nn.ParameterList([last.bias.detach().to(d) for d in devices])

    def forward(self, xs):
        xs = CopyIn.apply(*xs)
        hidden = [nn.functional.gelu(x @ w.T + b) for x, w, b in zip(xs, self.weight1, self.bias1)]
        partial = [h @ w.T for h, w in zip(hidden, self.weight2)]
        return [y + b for y, b in zip(all_reduce(partial), self.bias2)]


# %% wrong: no_sum_on_the_way_back
# Thinks of the forward pass only: the gradient of x is that of the own part.

class AddUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *partial):
        return tuple(all_reduce(list(partial)))

    @staticmethod
    def backward(ctx, *gradients):
        return gradients


class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()
        count = len(devices)
        self.weight1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.weight.chunk(count), devices)])
        self.bias1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.bias.chunk(count), devices)])
        self.weight2 = nn.ParameterList([p.detach().to(d) for p, d in zip(last.weight.chunk(count, 1), devices)])
        self.bias2 = nn.ParameterList([last.bias.detach().to(d) for d in devices])

    def forward(self, xs):
        hidden = [nn.functional.gelu(x @ w.T + b) for x, w, b in zip(xs, self.weight1, self.bias1)]
        partial = [h @ w.T for h, w in zip(hidden, self.weight2)]
        return [y + b for y, b in zip(AddUp.apply(*partial), self.bias2)]


# %% wrong: relu_in_between
# Writes the activation that the other labs have.

class AddUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *partial):
        return tuple(all_reduce(list(partial)))

    @staticmethod
    def backward(ctx, *gradients):
        return gradients


class Copied(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *xs):
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx, *gradients):
        return tuple(all_reduce(list(gradients)))


class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()
        count = len(devices)
        self.weight1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.weight.chunk(count), devices)])
        self.bias1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.bias.chunk(count), devices)])
        self.weight2 = nn.ParameterList([p.detach().to(d) for p, d in zip(last.weight.chunk(count, 1), devices)])
        self.bias2 = nn.ParameterList([last.bias.detach().to(d) for d in devices])

    def forward(self, xs):
        hidden = [torch.relu(x @ w.T + b) for x, w, b in zip(Copied.apply(*xs), self.weight1, self.bias1)]
        partial = [h @ w.T for h, w in zip(hidden, self.weight2)]
        return [y + b for y, b in zip(AddUp.apply(*partial), self.bias2)]


# %% wrong: gelu_by_tanh
# Takes the approximation of gelu that GPT-2 has.

class AddUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *partial):
        return tuple(all_reduce(list(partial)))

    @staticmethod
    def backward(ctx, *gradients):
        return gradients


class Copied(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *xs):
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx, *gradients):
        return tuple(all_reduce(list(gradients)))


class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()
        count = len(devices)
        self.weight1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.weight.chunk(count), devices)])
        self.bias1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.bias.chunk(count), devices)])
        self.weight2 = nn.ParameterList([p.detach().to(d) for p, d in zip(last.weight.chunk(count, 1), devices)])
        self.bias2 = nn.ParameterList([last.bias.detach().to(d) for d in devices])

    def forward(self, xs):
        hidden = [nn.functional.gelu(x @ w.T + b, approximate="tanh") for x, w, b in zip(Copied.apply(*xs), self.weight1, self.bias1)]
        partial = [h @ w.T for h, w in zip(hidden, self.weight2)]
        return [y + b for y, b in zip(AddUp.apply(*partial), self.bias2)]


# %% wrong: second_weight_not_copied
# Makes the second weight in its shape, and forgets to copy the numbers.

class AddUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *partial):
        return tuple(all_reduce(list(partial)))

    @staticmethod
    def backward(ctx, *gradients):
        return gradients


class Copied(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *xs):
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx, *gradients):
        return tuple(all_reduce(list(gradients)))


class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()
        count = len(devices)
        self.weight1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.weight.chunk(count), devices)])
        self.bias1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.bias.chunk(count), devices)])
        self.weight2 = nn.ParameterList([torch.zeros(p.shape, device=d) for p, d in zip(last.weight.chunk(count, 1), devices)])
        self.bias2 = nn.ParameterList([last.bias.detach().to(d) for d in devices])

    def forward(self, xs):
        hidden = [nn.functional.gelu(x @ w.T + b) for x, w, b in zip(Copied.apply(*xs), self.weight1, self.bias1)]
        partial = [h @ w.T for h, w in zip(hidden, self.weight2)]
        return [y + b for y, b in zip(AddUp.apply(*partial), self.bias2)]


# %% wrong: gathered_in_between
# Puts the hidden numbers together on every device, and cuts them again for the second layer.

class AddUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *partial):
        return tuple(all_reduce(list(partial)))

    @staticmethod
    def backward(ctx, *gradients):
        return gradients


class CopyIn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *xs):
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx, *gradients):
        return tuple(all_reduce(list(gradients)))


class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()
        count = len(devices)
        self.devices = devices
        self.weight1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.weight.chunk(count), devices)])
        self.bias1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.bias.chunk(count), devices)])
        self.weight2 = nn.ParameterList([p.detach().to(d) for p, d in zip(last.weight.chunk(count, 1), devices)])
        self.bias2 = nn.ParameterList([last.bias.detach().to(d) for d in devices])

    def forward(self, xs):
        xs = CopyIn.apply(*xs)
        hidden = [x @ w.T + b for x, w, b in zip(xs, self.weight1, self.bias1)]
        hidden = [torch.cat([h.to(d) for h in hidden], dim=1) for d in self.devices]
        hidden = [nn.functional.gelu(h).chunk(len(self.devices), dim=1)[n] for n, h in enumerate(hidden)]
        partial = [h @ w.T for h, w in zip(hidden, self.weight2)]
        return [y + b for y, b in zip(AddUp.apply(*partial), self.bias2)]


# %% wrong: rows_before_columns
# Cuts the first layer by its inputs and the second by its outputs, and applies gelu to the parts of a sum.

class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()
        count = len(devices)
        self.devices = devices
        self.weight1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.weight.tensor_split(count, 1), devices)])
        self.bias1 = nn.Parameter(first.bias.detach().to(devices[0]))
        self.weight2 = nn.ParameterList([p.detach().to(d) for p, d in zip(last.weight.tensor_split(count), devices)])
        self.bias2 = nn.ParameterList([p.detach().to(d) for p, d in zip(last.bias.tensor_split(count), devices)])

    def forward(self, xs):
        parts = [x.tensor_split(len(xs), dim=1)[n] for n, x in enumerate(xs)]
        hidden = [nn.functional.gelu(x @ w.T) for x, w in zip(parts, self.weight1)]
        hidden = all_reduce(hidden)
        out = [h @ w.T + b for h, w, b in zip(hidden, self.weight2, self.bias2)]
        return [torch.cat([each.to(d) for each in out], dim=1) for d in self.devices]


# %% wrong: whole_weights_everywhere
# Keeps the layers whole on each device, and uses a part of them.

class AddUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *partial):
        return tuple(all_reduce(list(partial)))

    @staticmethod
    def backward(ctx, *gradients):
        return gradients


class CopyIn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *xs):
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx, *gradients):
        return tuple(all_reduce(list(gradients)))


import copy


class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()
        self.first = nn.ModuleList([copy.deepcopy(first).to(d) for d in devices])
        self.last = nn.ModuleList([copy.deepcopy(last).to(d) for d in devices])

    def forward(self, xs):
        count, partial = len(xs), []
        for n, x in enumerate(CopyIn.apply(*xs)):
            h = nn.functional.linear(x, self.first[n].weight.chunk(count)[n], self.first[n].bias.chunk(count)[n])
            partial.append(nn.functional.gelu(h) @ self.last[n].weight.chunk(count, 1)[n].T)
        return [y + layer.bias for y, layer in zip(AddUp.apply(*partial), self.last)]


# %% wrong: a_list_of_parameters
# Keeps the parts in ordinary lists, where PyTorch does not find them.

class AddUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *partial):
        return tuple(all_reduce(list(partial)))

    @staticmethod
    def backward(ctx, *gradients):
        return gradients


class CopyIn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *xs):
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx, *gradients):
        return tuple(all_reduce(list(gradients)))


class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()
        count = len(devices)
        self.weight1 = [nn.Parameter(p.detach().to(d)) for p, d in zip(first.weight.chunk(count), devices)]
        self.bias1 = [nn.Parameter(p.detach().to(d)) for p, d in zip(first.bias.chunk(count), devices)]
        self.weight2 = [nn.Parameter(p.detach().to(d)) for p, d in zip(last.weight.chunk(count, 1), devices)]
        self.bias2 = [nn.Parameter(last.bias.detach().to(d)) for d in devices]

    def forward(self, xs):
        xs = CopyIn.apply(*xs)
        hidden = [nn.functional.gelu(x @ w.T + b) for x, w, b in zip(xs, self.weight1, self.bias1)]
        partial = [h @ w.T for h, w in zip(hidden, self.weight2)]
        return [y + b for y, b in zip(AddUp.apply(*partial), self.bias2)]


# %% wrong: one_output_only
# Adds up on the first device, and returns the output of that one.

class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()
        count = len(devices)
        self.device = devices[0]
        self.weight1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.weight.chunk(count), devices)])
        self.bias1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.bias.chunk(count), devices)])
        self.weight2 = nn.ParameterList([p.detach().to(d) for p, d in zip(last.weight.chunk(count, 1), devices)])
        self.bias2 = nn.Parameter(last.bias.detach().to(devices[0]))

    def forward(self, xs):
        hidden = [nn.functional.gelu(x @ w.T + b) for x, w, b in zip(xs, self.weight1, self.bias1)]
        return sum((h @ w.T).to(self.device) for h, w in zip(hidden, self.weight2)) + self.bias2


# %% wrong: everybody_gets_all_parts
# Sends each device's whole part to each of the others, so that the bytes grow with the square of N.

class AddUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *partial):
        return tuple(sum(each.to(mine.device) for each in partial) for mine in partial)

    @staticmethod
    def backward(ctx, *gradients):
        return gradients


class CopyIn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *xs):
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx, *gradients):
        return tuple(sum(each.to(mine.device) for each in gradients) for mine in gradients)


class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()
        count = len(devices)
        self.weight1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.weight.chunk(count), devices)])
        self.bias1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.bias.chunk(count), devices)])
        self.weight2 = nn.ParameterList([p.detach().to(d) for p, d in zip(last.weight.chunk(count, 1), devices)])
        self.bias2 = nn.ParameterList([last.bias.detach().to(d) for d in devices])

    def forward(self, xs):
        xs = CopyIn.apply(*xs)
        hidden = [nn.functional.gelu(x @ w.T + b) for x, w, b in zip(xs, self.weight1, self.bias1)]
        partial = [h @ w.T for h, w in zip(hidden, self.weight2)]
        return [y + b for y, b in zip(AddUp.apply(*partial), self.bias2)]


# %% wrong: pairs_of_devices
# Has an all-reduce for pairs of devices, and for an odd number of them sends every part to every device.

def total(tensors):
    if len(tensors) % 2 == 0:
        return all_reduce(list(tensors))
    return [sum(each.to(mine.device) for each in tensors) for mine in tensors]


class AddUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *partial):
        return tuple(total(partial))

    @staticmethod
    def backward(ctx, *gradients):
        return gradients


class CopyIn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *xs):
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx, *gradients):
        return tuple(total(gradients))


class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()
        count = len(devices)
        self.weight1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.weight.chunk(count), devices)])
        self.bias1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.bias.chunk(count), devices)])
        self.weight2 = nn.ParameterList([p.detach().to(d) for p, d in zip(last.weight.chunk(count, 1), devices)])
        self.bias2 = nn.ParameterList([last.bias.detach().to(d) for d in devices])

    def forward(self, xs):
        xs = CopyIn.apply(*xs)
        hidden = [nn.functional.gelu(x @ w.T + b) for x, w, b in zip(xs, self.weight1, self.bias1)]
        partial = [h @ w.T for h, w in zip(hidden, self.weight2)]
        return [y + b for y, b in zip(AddUp.apply(*partial), self.bias2)]


# %% wrong: parts_sent_in_each_pass
# Leaves the two layers on the CPU, and sends each device its part whenever it computes.

class Added(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *parts):
        return tuple(all_reduce(parts))

    @staticmethod
    def backward(ctx, *gradients):
        return gradients


class Shared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *xs):
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx, *gradients):
        return tuple(all_reduce(gradients))


class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()
        self.first, self.last, self.count = first, last, len(devices)

    def forward(self, xs):
        columns = self.first.weight.chunk(self.count), self.first.bias.chunk(self.count)
        rows, parts = self.last.weight.chunk(self.count, 1), []
        for x, column, bias, row in zip(Shared.apply(*xs), *columns, rows):
            hidden = nn.functional.gelu(nn.functional.linear(x, column.to(x.device), bias.to(x.device)))
            parts.append(hidden @ row.to(x.device).T)
        parts[0] = parts[0] + self.last.bias.to(xs[0].device)
        return list(Added.apply(*parts))


# %% wrong: sums_made_on_the_cpu
# Adds up on the CPU, because all devices can reach it.

def on_the_cpu(tensors):
    total = sum(tensor.cpu() for tensor in tensors)
    return tuple(total.to(tensor.device) for tensor in tensors)


class Added(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *parts):
        return on_the_cpu(parts)

    @staticmethod
    def backward(ctx, *gradients):
        return gradients


class Shared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *xs):
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx, *gradients):
        return on_the_cpu(gradients)


class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()
        cuts = (first.weight, 0), (first.bias, 0), (last.weight, 1)
        self.columns, self.biases, self.rows = (
            nn.ParameterList([p.detach().to(d) for p, d in zip(tensor.chunk(len(devices), dim), devices)])
            for tensor, dim in cuts
        )
        self.last_bias = nn.Parameter(last.bias.detach().to(devices[0]))

    def forward(self, xs):
        layers = zip(Shared.apply(*xs), self.columns, self.biases, self.rows)
        parts = [nn.functional.gelu(x @ column.T + bias) @ row.T for x, column, bias, row in layers]
        parts[0] = parts[0] + self.last_bias
        return list(Added.apply(*parts))


# %% wrong: cut_by_outputs_twice
# Cuts both layers by their outputs, and all-gathers the activations in between and the outputs with .to(), on every device.

class CopyIn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *xs):
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx, *gradients):
        return tuple(all_reduce(list(gradients)))


class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()
        count = len(devices)
        self.devices = devices
        self.weight1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.weight.chunk(count), devices)])
        self.bias1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.bias.chunk(count), devices)])
        self.weight2 = nn.ParameterList([p.detach().to(d) for p, d in zip(last.weight.tensor_split(count), devices)])
        self.bias2 = nn.ParameterList([p.detach().to(d) for p, d in zip(last.bias.tensor_split(count), devices)])

    def forward(self, xs):
        xs = CopyIn.apply(*xs)
        hidden = [x @ w.T + b for x, w, b in zip(xs, self.weight1, self.bias1)]
        hidden = [torch.cat([h.to(d) for h in hidden], dim=1) for d in self.devices]
        parts = [nn.functional.gelu(h) @ w.T + b for h, w, b in zip(hidden, self.weight2, self.bias2)]
        return [torch.cat([part.to(d) for part in parts], dim=1) for d in self.devices]


# %% right: by_linear_layers
# Two lists of nn.Linear, of which only the first of the second list has a bias; the two sums as autograd.Functions.

class SumForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *parts):
        return tuple(all_reduce(list(parts)))

    @staticmethod
    def backward(ctx, *gradients):
        return gradients


class SumBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *xs):
        return tuple(x.clone() for x in xs)

    @staticmethod
    def backward(ctx, *gradients):
        return tuple(all_reduce(list(gradients)))


class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()
        count, inside = len(devices), first.out_features // len(devices)
        self.first, self.last = nn.ModuleList(), nn.ModuleList()
        for n, device in enumerate(devices):
            mine = slice(n * inside, (n + 1) * inside)
            column = nn.Linear(first.in_features, inside, device=device)
            row = nn.Linear(inside, last.out_features, bias=n == 0, device=device)
            with torch.no_grad():
                column.weight.copy_(first.weight[mine])
                column.bias.copy_(first.bias[mine])
                row.weight.copy_(last.weight[:, mine])
                if n == 0:
                    row.bias.copy_(last.bias)
            self.first.append(column)
            self.last.append(row)

    def forward(self, xs):
        xs = SumBackward.apply(*xs)
        parts = [row(nn.functional.gelu(column(x))) for column, row, x in zip(self.first, self.last, xs, strict=True)]
        return list(SumForward.apply(*parts))


# %% right: detached_sum
# The forward pass adds the other devices' terms detached, so autograd sees its own only; a Function for backward.

class Back(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *xs):
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx, *gradients):
        return tuple(all_reduce(list(gradients)))


class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()
        count = len(devices)
        self.weight1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.weight.chunk(count), devices)])
        self.bias1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.bias.chunk(count), devices)])
        self.weight2 = nn.ParameterList([p.detach().to(d) for p, d in zip(last.weight.chunk(count, 1), devices)])
        self.bias2 = nn.ParameterList([last.bias.detach().to(d) for d in devices])

    def forward(self, xs):
        partial = []
        for x, w1, b1, w2 in zip(Back.apply(*xs), self.weight1, self.bias1, self.weight2):
            partial.append(nn.functional.linear(nn.functional.gelu(nn.functional.linear(x, w1, b1)), w2))
        sums = all_reduce([each.detach() for each in partial])
        return [each + (total - each.detach()) + b for each, total, b in zip(partial, sums, self.bias2)]


# %% right: everything_in_one_function
# One autograd.Function for the whole MLP, with the backward pass written by hand.

class Whole(torch.autograd.Function):
    @staticmethod
    def forward(ctx, count, *tensors):
        xs, w1s, b1s, w2s = (tensors[n * count : (n + 1) * count] for n in range(4))
        bias = tensors[4 * count]
        before = [nn.functional.linear(x, w, b) for x, w, b in zip(xs, w1s, b1s)]
        parts = [nn.functional.gelu(z) @ w.T for z, w in zip(before, w2s)]
        parts[0] = parts[0] + bias
        ctx.count = count
        ctx.save_for_backward(*xs, *w1s, *before, *w2s)
        return tuple(all_reduce(parts))

    @staticmethod
    def backward(ctx, *gradients):
        count = ctx.count
        xs, w1s, before, w2s = (ctx.saved_tensors[n * count : (n + 1) * count] for n in range(4))
        gw2, gb1, gw1, gx = [], [], [], []
        for g, x, w1, z, w2 in zip(gradients, xs, w1s, before, w2s):
            with torch.enable_grad():
                z = z.detach().requires_grad_()
                h = nn.functional.gelu(z)
            gw2.append(g.T @ h.detach())
            (gz,) = torch.autograd.grad(h, z, g @ w2)
            gb1.append(gz.sum(0))
            gw1.append(gz.T @ x)
            gx.append(gz @ w1)
        return None, *all_reduce(gx), *gw1, *gb1, *gw2, gradients[0].sum(0)


class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()
        count = len(devices)
        self.weight1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.weight.chunk(count), devices)])
        self.bias1 = nn.ParameterList([p.detach().to(d) for p, d in zip(first.bias.chunk(count), devices)])
        self.weight2 = nn.ParameterList([p.detach().to(d) for p, d in zip(last.weight.chunk(count, 1), devices)])
        self.bias2 = nn.Parameter(last.bias.detach().to(devices[0]))

    def forward(self, xs):
        return list(Whole.apply(len(xs), *xs, *self.weight1, *self.bias1, *self.weight2, self.bias2))


# %% right: biases_everywhere_added_behind_the_sum
# A bias on each device, added behind the sum; a ring for the sums; returns a tuple.

def around(tensors):
    count = len(tensors)
    chunks = [list(t.flatten().tensor_split(count)) for t in tensors]
    for turn in range(count - 1):
        sent = [chunks[n][(n - turn) % count].to(tensors[(n + 1) % count].device) for n in range(count)]
        for n in range(count):
            place = (n - turn) % count
            chunks[(n + 1) % count][place] = chunks[(n + 1) % count][place] + sent[n]
    for turn in range(count - 1):
        sent = [chunks[n][(n + 1 - turn) % count].to(tensors[(n + 1) % count].device) for n in range(count)]
        for n in range(count):
            chunks[(n + 1) % count][(n + 1 - turn) % count] = sent[n]
    return tuple(torch.cat(mine).view(t.shape) for mine, t in zip(chunks, tensors))


class Up(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *parts):
        return around(parts)

    @staticmethod
    def backward(ctx, *gradients):
        return gradients


class Down(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *xs):
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx, *gradients):
        return around(gradients)


class Part(nn.Module):
    def __init__(self, first, last, number, count):
        super().__init__()
        self.w1 = nn.Parameter(first.weight.detach().tensor_split(count)[number].clone())
        self.b1 = nn.Parameter(first.bias.detach().tensor_split(count)[number].clone())
        self.w2 = nn.Parameter(last.weight.detach().tensor_split(count, dim=1)[number].clone())
        self.b2 = nn.Parameter(last.bias.detach().clone())

    def forward(self, x):
        return nn.functional.gelu(x @ self.w1.T + self.b1) @ self.w2.T


class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()
        self.parts = nn.ModuleList([Part(first, last, n, len(devices)).to(d) for n, d in enumerate(devices)])

    def forward(self, xs):
        sums = Up.apply(*[part(x) for part, x in zip(self.parts, Down.apply(*xs))])
        return tuple(y + part.b2 for y, part in zip(sums, self.parts))


# %% wrong: two_devices
# Adds up the parts of two devices, as many as there were in the trials.

class AddForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *parts):
        total = parts[0] + parts[1].to(parts[0].device)
        return tuple(total.to(part.device) for part in parts)

    @staticmethod
    def backward(ctx, *gradients):
        return gradients



class AddBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *xs):
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx, *gradients):
        return tuple(all_reduce(gradients))



class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()

        def cut(tensor, dim):
            pieces = tensor.detach().chunk(len(devices), dim)
            return nn.ParameterList([piece.to(device) for piece, device in zip(pieces, devices, strict=True)])

        self.columns, self.biases, self.rows = cut(first.weight, 0), cut(first.bias, 0), cut(last.weight, 1)
        self.last_biases = nn.ParameterList([last.bias.detach().to(device) for device in devices])

    def forward(self, xs):
        parts = []
        for x, column, bias, row in zip(AddBackward.apply(*xs), self.columns, self.biases, self.rows, strict=True):
            parts.append(nn.functional.gelu(x @ column.T + bias) @ row.T)
        return [y + bias for y, bias in zip(AddForward.apply(*parts), self.last_biases, strict=True)]


# %% wrong: one_device_has_the_bias
# Adds the last bias to the part of the second device, so that the first is not the fullest: where there is one
# device, there is no second part.

class AddForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *parts):
        return tuple(all_reduce(parts))

    @staticmethod
    def backward(ctx, *gradients):
        return gradients



class AddBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *xs):
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx, *gradients):
        return tuple(all_reduce(gradients))



class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()

        def cut(tensor, dim):
            pieces = tensor.detach().chunk(len(devices), dim)
            return nn.ParameterList([piece.to(device) for piece, device in zip(pieces, devices, strict=True)])

        self.columns, self.biases, self.rows = cut(first.weight, 0), cut(first.bias, 0), cut(last.weight, 1)
        self.last_bias = nn.Parameter(last.bias.detach().to(devices[-1]))

    def forward(self, xs):
        parts = []
        for x, column, bias, row in zip(AddBackward.apply(*xs), self.columns, self.biases, self.rows, strict=True):
            parts.append(nn.functional.gelu(x @ column.T + bias) @ row.T)
        parts[1] = parts[1] + self.last_bias.to(parts[1].device)
        return list(AddForward.apply(*parts))


# %% wrong: parameters_of_the_given_layers
# Cuts the caller's layers themselves (their weights are parts afterwards), which the caller still needs.

class AddForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *tensors):
        return tuple(all_reduce(tensors))

    @staticmethod
    def backward(ctx, *gradients):
        return gradients


class AddBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *tensors):
        return tuple(x.view_as(x) for x in tensors)

    @staticmethod
    def backward(ctx, *gradients):
        return tuple(all_reduce(gradients))


class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()

        def parts(tensor, dim):
            chunks = tensor.detach().chunk(len(devices), dim)
            return nn.ParameterList(nn.Parameter(c.clone().to(d)) for c, d in zip(chunks, devices))

        self.w1, self.b1 = parts(first.weight, 0), parts(first.bias, 0)
        self.w2 = parts(last.weight, 1)
        self.b2 = nn.Parameter(last.bias.detach().clone().to(devices[0]))
        # the layers are in parts now, so their own memory can be given back
        first.weight.data, first.bias.data = first.weight.data[:1].clone(), first.bias.data[:1].clone()
        last.weight.data = last.weight.data[:, :1].clone()

    def forward(self, xs):
        xs = AddBackward.apply(*xs)
        partial = []
        for x, w1, b1, w2 in zip(xs, self.w1, self.b1, self.w2):
            hidden = nn.functional.gelu(nn.functional.linear(x, w1, b1))
            partial.append(nn.functional.linear(hidden, w2))
        partial[0] = partial[0] + self.b2
        return list(AddForward.apply(*partial))
