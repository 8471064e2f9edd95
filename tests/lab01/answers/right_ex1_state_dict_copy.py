"""Makes the layers on the CPU and loads their state dicts into layers that were made on the devices."""


def make_layers(device0, device1):
    on_cpu = nn.Sequential(nn.Linear(1000, 2000), nn.Linear(2000, 1000))

    layer1 = nn.Linear(1000, 2000, device=device0)
    layer1.load_state_dict(on_cpu[0].state_dict())
    layer2 = nn.Linear(2000, 1000, device=device1)
    layer2.load_state_dict(on_cpu[1].state_dict())
    return layer1, layer2
