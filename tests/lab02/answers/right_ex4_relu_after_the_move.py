"""Moves first and computes both ReLUs on device1, as a clamp."""

class Mended(Detour):
    def forward(self, x):
        hidden = self.layer1(x.to(self.device0)).to(self.device1, non_blocking=True)
        return self.layer2(hidden.clamp(min=0)).clamp(min=0)
