"""Joins the outputs and takes one loss."""


def overlapping(model, loss_fn, x, y, size):
    output = torch.cat([model(rows) for rows in x.split(size)])
    loss = loss_fn(output, y)
    loss.backward()
    return loss.item()
