"""Thinks that the first half of the parameters is on the first device."""


def make_optimizers(model, lr):
    parameters = list(model.parameters())
    half = len(parameters) // 2
    return [torch.optim.Adam(parameters[:half], lr=lr), torch.optim.Adam(parameters[half:], lr=lr)]
