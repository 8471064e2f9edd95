def _stuck(rank, ranks, part, rows, width, x, y, loss_fn, send, recv):
    """The list of 1F1B, action by action: where sends wait, two neighbours send to each other."""
    warm_up = min(ranks - rank - 1, len(rows))
    flying, loss = [], 0.0
    xs = x.split(rows) if rank == 0 else None
    ys = y.split(rows) if rank == ranks - 1 else None

    def forward(k):
        if rank == 0:
            inputs = xs[k]
        else:
            inputs = torch.zeros(rows[k], width)
            recv(inputs, rank - 1)
            inputs.requires_grad_()
        output = part(inputs)
        if rank == ranks - 1:
            output = loss_fn(output, ys[k]) * rows[k] / sum(rows)
        else:
            send(output.detach(), rank + 1)
        flying.append((inputs, output))

    def backward():
        nonlocal loss
        inputs, output = flying.pop(0)
        if rank == ranks - 1:
            loss += output.item()
            output.backward()
        else:
            gradient = torch.zeros_like(output)
            recv(gradient, rank + 1)
            output.backward(gradient)
        if rank > 0:
            send(inputs.grad, rank - 1)

    for k in range(warm_up):
        forward(k)
    for k in range(warm_up, len(rows)):
        forward(k)
        backward()
    while flying:
        backward()
    return loss if rank == ranks - 1 else None
