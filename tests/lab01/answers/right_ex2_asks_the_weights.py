"""Makes the layers in device contexts, uses one ReLU twice, and moves the batch to wherever the weights are."""


class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        with torch.device(device0):
            self.layer1 = nn.Linear(1000, 2000)
        with torch.device(device1):
            self.layer2 = nn.Linear(2000, 1000)
        self.relu = nn.ReLU()

    def forward(self, x):
        for layer in (self.layer1, self.layer2):
            x = self.relu(layer(x.to(layer.weight.device)))
        return x
