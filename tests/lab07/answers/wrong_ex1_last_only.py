"""Overwrites the output in each turn, so only the last micro-batch comes out."""


class Pipelined(nn.Module):
    def __init__(self, part0, part1, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = part0.to(device0)
        self.part1 = part1.to(device1)

    def forward(self, x, size):
        for piece in x.split(size):
            output = self.part1(self.part0(piece.to(self.device0)).to(self.device1))
        return output
