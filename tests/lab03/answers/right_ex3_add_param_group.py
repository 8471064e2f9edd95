"""Makes an optimizer when a device is met first, and adds later parameters to it."""


def make_optimizers(model, lr):
    found = {}
    for parameter in model.parameters():
        if parameter.device in found:
            found[parameter.device].add_param_group({"params": [parameter]})
        else:
            found[parameter.device] = torch.optim.Adam([parameter], lr=lr)
    return list(found.values())
