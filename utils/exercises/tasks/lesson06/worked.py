"""Lesson 06: working versions of its tasks."""

from torchvision.models.resnet import Bottleneck, ResNet


class SplitResNet50(ResNet):
    def __init__(self, device0, device1, **options):
        super().__init__(Bottleneck, [3, 4, 6, 3], **options)
        self.device0, self.device1 = device0, device1
        # Moved in place: the parts keep their names, so a checkpoint of ResNet50 still loads.
        for name, part in self.named_children():
            part.to(device1 if name in ("layer3", "layer4", "avgpool", "fc") else device0)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x.to(self.device0)))))
        x = self.layer2(self.layer1(x))
        x = self.avgpool(self.layer4(self.layer3(x.to(self.device1))))  # the one move between the devices
        return self.fc(x.flatten(1))  # ResNet's own forward flattens here; no part does it


def differences(whole, split, images):
    """The largest absolute differences between two models' outputs, gradients and buffers."""
    found = []
    for model in (whole, split):
        model.zero_grad()
        output = model(images.to(next(model.parameters()).device))
        output.square().mean().backward()
        found.append(
            {
                "output": {"": output},
                "gradients": {name: p.grad for name, p in model.named_parameters()},
                "buffers": dict(model.named_buffers()),
            }
        )
    one, two = found
    return {
        kind: max((tensor.cpu() - two[kind][name].cpu()).abs().max().item() for name, tensor in tensors.items())
        for kind, tensors in one.items()
    }
