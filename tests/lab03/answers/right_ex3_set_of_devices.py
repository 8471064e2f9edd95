"""First the set of devices, then a search for each."""


def make_optimizers(model, lr):
    parameters = list(model.parameters())
    devices_used = {p.device for p in parameters}
    return [torch.optim.Adam([p for p in parameters if p.device == device], lr) for device in devices_used]
