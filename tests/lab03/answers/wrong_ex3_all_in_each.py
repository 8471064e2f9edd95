"""Makes two optimizers and gives both of them all the parameters."""


def make_optimizers(model, lr):
    return [torch.optim.Adam(model.parameters(), lr=lr), torch.optim.Adam(model.parameters(), lr=lr)]
