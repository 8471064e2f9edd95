"""Lab 03: exercise 4 has one branch wait for the other, and device1 busy meanwhile with useless work.

lab: lab03
"""

# %% instead of ex4
class Branches(nn.Module):
    def __init__(self, branch0, branch1, head, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.branch0, self.branch1, self.head = branch0.to(device0), branch1.to(device1), head.to(device0)
        self.junk = [torch.ones(1024, 1024, device=device1)]

    def forward(self, x):
        batch = x.to(self.device0)
        self.junk[0] @ self.junk[0]
        result0 = self.branch0(batch)
        result1 = self.branch1(batch.to(self.device1)).to(self.device0)
        return self.head(torch.cat([result0, result1], dim=1))
