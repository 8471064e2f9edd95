"""Thinks that training needs gradients of the batch, so its gradient goes back to the CPU."""

class Mended(Detour):
    def forward(self, x):
        x.requires_grad_()
        x = torch.relu(self.layer1(x.to(self.device0)))
        return torch.relu(self.layer2(x.to(self.device1)))
