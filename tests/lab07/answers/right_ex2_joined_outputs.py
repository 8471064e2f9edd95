"""Joins the outputs, so one loss over all rows needs no weights."""


def train_step(model, optimizer, loss_fn, x, y, size):
    outputs = torch.cat([model(rows) for rows in x.split(size)])
    loss = loss_fn(outputs, y.to(outputs.device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss)
