"""Sets every dropout to 0, so that the split model is exactly the whole one."""


class SplitEncoder(nn.Module):
    def __init__(self, encoder, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.cut = cut
        self.layers = encoder.layers
        self.norm = encoder.norm
        for number, layer in enumerate(self.layers):
            layer.to(device0 if number < cut else device1)
        if self.norm is not None:
            self.norm.to(device1)
        for module in self.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0

    def forward(self, x, mask=None):
        for number, layer in enumerate(self.layers):
            device = self.device0 if number < self.cut else self.device1
            x = x.to(device)
            layer_mask = None if mask is None else mask.to(device)
            x = layer(x, layer_mask)
        return x if self.norm is None else self.norm(x)
