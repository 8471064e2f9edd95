"""Gives the optimizer a closure that computes the loss and the gradients."""


def train_step(model, optimizer, loss_fn, x, y, size):
    def closure():
        optimizer.zero_grad()
        total = 0.0
        for rows, target in zip(x.split(size), y.split(size), strict=True):
            output = model(rows)
            loss = loss_fn(output, target.to(output.device)) * len(rows) / len(x)
            loss.backward()
            total = total + loss.detach()
        return total

    return optimizer.step(closure).item()
