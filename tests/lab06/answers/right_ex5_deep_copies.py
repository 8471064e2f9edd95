"""Leaves the encoder alone and splits a copy of it."""

import copy


class SplitEncoder(nn.Module):
    def __init__(self, encoder, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        encoder = copy.deepcopy(encoder)
        self.first = nn.ModuleList(layer.to(device0) for layer in encoder.layers[:cut])
        self.second = nn.ModuleList(layer.to(device1) for layer in encoder.layers[cut:])
        self.norm = nn.Identity() if encoder.norm is None else encoder.norm.to(device1)

    def forward(self, x, mask=None):
        mask0 = mask1 = mask
        if mask is not None:
            mask0, mask1 = mask.to(self.device0), mask.to(self.device1)
        x = x.to(self.device0)
        for layer in self.first:
            x = layer(x, src_mask=mask0)
        x = x.to(self.device1)
        for layer in self.second:
            x = layer(x, src_mask=mask1)
        return self.norm(x)
