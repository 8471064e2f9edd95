"""Detaches between the parts, so the first part gets no gradient."""


def train_step(model, optimizer, loss_fn, x, y, size):
    optimizer.zero_grad()
    total = 0.0
    for rows, target in zip(x.split(size), y.split(size)):
        hidden = model.part0(rows.to(model.device0))
        output = model.part1(hidden.detach().to(model.device1))
        loss = loss_fn(output, target.to(model.device1)) * len(rows) / len(x)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total
