"""Keeps the encoder whole and its forward too: hooks move what each layer gets."""


class SplitEncoder(nn.Module):
    def __init__(self, encoder, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.encoder = encoder.to(device1)
        for number, layer in enumerate(encoder.layers):
            device = device0 if number < cut else device1
            layer.to(device).register_forward_pre_hook(self.moves_to(device), with_kwargs=True)

    def moves_to(self, device):
        def move(value):
            return value.to(device) if isinstance(value, torch.Tensor) else value

        def hook(layer, inputs, keywords):
            return tuple(map(move, inputs)), {name: move(value) for name, value in keywords.items()}

        return hook

    def forward(self, x, mask=None):
        return self.encoder(x, mask)
