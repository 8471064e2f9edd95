import torch


def average_gradients(copies):
    for first, *others in zip(*(copy.parameters() for copy in copies), strict=True):
        for other in others:
            first.grad += other.grad.to(first.device)
        first.grad /= len(copies)
        for other in others:
            other.grad.copy_(first.grad)


def ring_sum_(flats, giving, taking):
    """Each of `flats`, one a device, all of one length that their number divides, becomes the sum of all."""
    count = len(flats)
    gpu = torch.get_device_module(flats[0].device)
    pieces = [flat.chunk(count) for flat in flats]
    for step in range(2 * (count - 1)):
        arrived = []
        for rank, flat in enumerate(flats):
            there, piece = (rank + 1) % count, (rank - step) % count  # each sends another piece, all at once
            target = flats[there].device
            giving[rank].wait_stream(gpu.current_stream(flat.device))
            with gpu.stream(giving[rank]), gpu.stream(taking[there]):
                arrived.append((there, piece, pieces[rank][piece].to(target, non_blocking=True)))
        for rank, piece, received in arrived:
            computing = gpu.current_stream(received.device)
            computing.wait_stream(taking[rank])
            received.record_stream(computing)  # CUDA: do not give this memory away before that stream has read it
            if step < count - 1:
                pieces[rank][piece].add_(received)
            else:  # all have added to it by now
                pieces[rank][piece].copy_(received)


class Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gpus, *weights):
        ctx.gpus = gpus
        return tuple(w.view_as(w) if w.device == gpu else w.to(gpu) for gpu in gpus for w in weights)

    @staticmethod
    def backward(ctx, *gradients):
        number, first = len(gradients) // len(ctx.gpus), ctx.gpus[0]
        sums = [sum((g.to(first) for g in gradients[i + number :: number]), gradients[i]) for i in range(number)]
        return None, *sums


def data_parallel(model, x, gpus):
    shares = [share.to(gpu) for gpu, share in zip(gpus, x.chunk(len(gpus)), strict=True)]
    names, weights = zip(*model.named_parameters(), strict=True)
    sent = Broadcast.apply(gpus, *weights)
    outputs = []
    for i, share in enumerate(shares):
        replica = dict(zip(names, sent[i * len(names) :], strict=False))
        outputs.append(torch.func.functional_call(model, replica, share))
    return torch.cat([output.to(gpus[0]) for output in outputs])
