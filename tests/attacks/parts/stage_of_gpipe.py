def _gpipe(rank, ranks, part, rows, width, x, y, loss_fn, send, recv):
    """All forward passes, then all backward passes: right numbers, and too much in flight."""
    total, flying = 0.0, []
    first, last = rank == 0, rank == ranks - 1
    for k, count in enumerate(rows):
        if first:
            inputs = x.split(rows)[k]
        else:
            inputs = torch.empty(count, width)
            recv(inputs, rank - 1)
            inputs.requires_grad_(True)
        output = part(inputs)
        if last:
            output = loss_fn(output, y.split(rows)[k]) * count / sum(rows)
            total += output.item()
        else:
            send(output.detach(), rank + 1)
        flying.append((inputs, output))
    for inputs, output in flying:
        if last:
            output.backward()
        else:
            gradient = torch.empty_like(output)
            recv(gradient, rank + 1)
            output.backward(gradient)
        if not first:
            send(inputs.grad, rank - 1)
    return total if last else None
