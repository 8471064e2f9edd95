"""Tries the cuts from the largest to the smallest, and prints what it found."""


class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        def training_bytes(part):
            return sum(16 * p.numel() * p.element_size() // 4 for p in part.parameters())

        cut = next(c for c in range(len(layers), -1, -1) if training_bytes(layers[:c]) <= memory0)
        print("cut after", cut)
        self.part1 = layers[cut:].to(device1)
        self.part0 = layers[:cut].to(device0)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))
