"""Weighs each loss by size over the rows, also that of the smaller last one."""


def train_step(model, optimizer, loss_fn, x, y, size):
    optimizer.zero_grad()
    loss = 0
    for rows, target in zip(x.split(size), y.split(size)):
        loss = loss + loss_fn(model(rows), target.to(model.device1)) * min(size, len(x)) / len(x)
    loss.backward()
    optimizer.step()
    return loss.item()
