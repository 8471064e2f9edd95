"""Takes it that every mask is a causal one, and makes that anew on each device."""


class SplitEncoder(nn.Module):
    def __init__(self, encoder, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = encoder.layers[:cut].to(device0)
        self.part1 = encoder.layers[cut:].to(device1)
        self.norm = encoder.norm.to(device1) if encoder.norm is not None else nn.Identity()

    def forward(self, x, mask=None):
        for part, device in ((self.part0, self.device0), (self.part1, self.device1)):
            x = x.to(device)
            if mask is not None:
                mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1]).to(device)
            for layer in part:
                x = layer(x, mask)
        return self.norm(x)
