"""Goes through one generator of parameters twice, so that the second search finds nothing."""


def make_optimizers(model, lr):
    parameters = model.parameters()
    first = [p for p in parameters if p.device == device0]
    second = [p for p in parameters if p.device == device1]
    return [torch.optim.Adam(first, lr=lr), torch.optim.Adam(second, lr=lr)]
