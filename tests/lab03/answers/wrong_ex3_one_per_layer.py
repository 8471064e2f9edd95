"""Makes one optimizer for each child of the model, not for each device."""


def make_optimizers(model, lr):
    return [torch.optim.Adam(layer.parameters(), lr=lr) for layer in model.children()]
