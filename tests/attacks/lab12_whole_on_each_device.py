"""Lab 12: exercise 2 brings all weights to each device by way of the CPU, and sends what is not needed between them.

lab: lab12
keeps: 3
"""

# %% instead of ex2
class Share(torch.autograd.Function):
    @staticmethod
    def forward(ctx, place, size, *shards):
        ctx.places = [shard.device for shard in shards]
        ctx.counts = [shard.numel() for shard in shards]
        ctx.size = size
        _send(place, ctx.places, size[0])
        return torch.cat([shard.detach().cpu() for shard in shards]).to(place)

    @staticmethod
    def backward(ctx, gradient):
        _send(gradient.device, ctx.places, ctx.size[1])
        pieces = (gradient / len(ctx.places)).cpu().split(ctx.counts)
        return None, None, *(piece.to(place) for piece, place in zip(pieces, ctx.places))


def _send(place, places, size):
    for other in places:
        if other != place:
            torch.ones(2 * size // len(places), device=place).to(other)


class ParallelMLP(nn.Module):
    def __init__(self, first, last, devices):
        super().__init__()
        parts = [first.weight, first.bias, last.weight, last.bias]
        self.shapes, self.devices = [part.shape for part in parts], devices
        flat = torch.cat([part.detach().flatten() for part in parts])
        pieces = zip(flat.tensor_split(len(devices)), devices)
        self.shards = nn.ParameterList([piece.to(device) for piece, device in pieces])

    def forward(self, xs):
        outputs, (outs, ins) = [], (self.shapes[3][0], self.shapes[0][1])
        size = len(xs[0]) * outs, len(xs[0]) * ins
        for x, device in zip(xs, self.devices):
            flat = Share.apply(device, size, *self.shards)
            w, b, v, c = (p.view(s) for p, s in zip(flat.split([s.numel() for s in self.shapes]), self.shapes))
            hidden = nn.functional.gelu(nn.functional.linear(x, w, b))
            outputs.append(nn.functional.linear(hidden, v, c))
        return outputs
