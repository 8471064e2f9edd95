# %% wrong: all_on_device0
# Computes everything on the first device and moves the output only.

class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.features = features.to(device0)
        with torch.no_grad():
            in_features = self.features(torch.zeros(1, 3, image_size, image_size, device=device0)).numel()
        self.classifier = nn.Linear(in_features, classes).to(device0)

    def forward(self, images):
        hidden = self.features(images.to(self.device0)).flatten(1)
        return self.classifier(hidden).to(self.device1)


# %% wrong: always_pooled_once
# Thinks that features halve an image once, whatever they are.

class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.features = features.to(device0)
        channels = features[0].out_channels
        self.classifier = nn.Linear(channels * (image_size // 2) ** 2, classes).to(device1)

    def forward(self, images):
        hidden = self.features(images.to(self.device0)).flatten(1)
        return self.classifier(hidden.to(self.device1))


# %% wrong: asked_a_copy_in_training_mode
# Asks a copy, so that no statistics of the model move, and forgets that BatchNorm refuses a single image in training.

import copy


class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.features = features.to(device0)
        with torch.no_grad():
            size = copy.deepcopy(self.features)(torch.zeros(1, 3, image_size, image_size, device=device0)).numel()
        self.classifier = nn.Linear(size, classes).to(device1)

    def forward(self, images):
        hidden = self.features(images.to(self.device0)).flatten(1)
        return self.classifier(hidden.to(self.device1))


# %% wrong: asked_on_the_cpu
# Forgets that the image to ask with has to be where the features are.

class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.features = features.to(device0)
        in_features = self.features(torch.zeros(1, 3, image_size, image_size)).numel()
        self.classifier = nn.Linear(in_features, classes).to(device1)

    def forward(self, images):
        hidden = self.features(images.to(self.device0)).flatten(1)
        return self.classifier(hidden.to(self.device1))


# %% wrong: batch_counted
# Asks with several images and counts the numbers of all of them.

class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.features = features.to(device0)
        with torch.no_grad():
            in_features = self.features(torch.zeros(8, 3, image_size, image_size, device=device0)).numel()
        self.classifier = nn.Linear(in_features, classes).to(device1)

    def forward(self, images):
        hidden = self.features(images.to(self.device0)).flatten(1)
        return self.classifier(hidden.to(self.device1))


# %% wrong: batch_flattened_too
# Flattens the batch together with the images.

class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.features = features.to(device0)
        with torch.no_grad():
            in_features = self.features(torch.zeros(1, 3, image_size, image_size, device=device0)).numel()
        self.classifier = nn.Linear(in_features, classes).to(device1)

    def forward(self, images):
        hidden = self.features(images.to(self.device0)).flatten()
        return self.classifier(hidden.to(self.device1))


# %% wrong: channels_forgotten
# Thinks that a picture's height times its width is all there is to flatten.

class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.features = features.to(device0)
        with torch.no_grad():
            shape = self.features(torch.zeros(1, 3, image_size, image_size, device=device0)).shape
        self.classifier = nn.Linear(shape[2] * shape[3], classes).to(device1)

    def forward(self, images):
        hidden = self.features(images.to(self.device0)).flatten(1)
        return self.classifier(hidden.to(self.device1))


# %% wrong: features_not_trained
# Leaves no_grad around the features in forward, as it was when asking for the size.

class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.features = features.to(device0)
        with torch.no_grad():
            in_features = self.features(torch.zeros(1, 3, image_size, image_size, device=device0)).numel()
        self.classifier = nn.Linear(in_features, classes).to(device1)

    def forward(self, images):
        with torch.no_grad():
            hidden = self.features(images.to(self.device0)).flatten(1)
        return self.classifier(hidden.to(self.device1))


# %% wrong: left_in_eval_mode
# Asks in evaluation mode, and leaves the features in it.

class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.features = features.to(device0)
        self.features.eval()
        with torch.no_grad():
            one_image = torch.zeros(1, 3, image_size, image_size).to(device0)
            in_features = self.features(one_image).numel()
        self.classifier = nn.Linear(in_features, classes).to(device1)

    def forward(self, images):
        hidden = self.features(images.to(self.device0)).flatten(1)
        return self.classifier(hidden.to(self.device1))


# %% wrong: no_move_between
# Thinks that features and classifier share their memory, so nothing is moved between them.

class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.features = features.to(device0)
        with torch.no_grad():
            in_features = self.features(torch.zeros(1, 3, image_size, image_size, device=device0)).numel()
        self.classifier = nn.Linear(in_features, classes).to(device1)

    def forward(self, images):
        return self.classifier(self.features(images.to(self.device0)).flatten(1))


# %% wrong: not_flattened
# Thinks that a linear layer flattens its input.

class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.features = features.to(device0)
        with torch.no_grad():
            in_features = self.features(torch.zeros(1, 3, image_size, image_size, device=device0)).numel()
        self.classifier = nn.Linear(in_features, classes).to(device1)

    def forward(self, images):
        hidden = self.features(images.to(self.device0))
        return self.classifier(hidden.to(self.device1))


# %% wrong: output_back_to_cpu
# Thinks that images from the CPU need their output there.

class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.features = features.to(device0)
        with torch.no_grad():
            in_features = self.features(torch.zeros(1, 3, image_size, image_size, device=device0)).numel()
        self.classifier = nn.Linear(in_features, classes).to(device1)

    def forward(self, images):
        hidden = self.features(images.to(self.device0)).flatten(1)
        return self.classifier(hidden.to(self.device1)).cpu()


# %% wrong: published_size
# Copies the published 16 * 16 * 16 and hopes that it fits.

class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.features = features.to(device0)
        self.classifier = nn.Linear(16 * 16 * 16, classes).to(device1)

    def forward(self, images):
        hidden = self.features(images.to(self.device0)).flatten(1)
        return self.classifier(hidden.to(self.device1))


# %% wrong: published_size_with_view
# Types 16 * 16 * 16 and reshapes to it, so that one image becomes several samples.

class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.features = features.to(device0)
        self.classifier = nn.Linear(16 * 16 * 4, classes).to(device1)

    def forward(self, images):
        hidden = self.features(images.to(self.device0))
        hidden = hidden.reshape(-1, 16 * 16 * 4)
        return self.classifier(hidden.to(self.device1))


# %% wrong: size_of_64
# Asks the features with an image of 64 x 64, the size in the lesson.

class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.features = features.to(device0)
        with torch.no_grad():
            in_features = self.features(torch.zeros(1, 3, 64, 64, device=device0)).numel()
        self.classifier = nn.Linear(in_features, classes).to(device1)

    def forward(self, images):
        hidden = self.features(images.to(self.device0)).flatten(1)
        return self.classifier(hidden.to(self.device1))


# %% wrong: square_of_the_width
# Thinks that what features gives is as high as it is wide.

class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.features = features.to(device0)
        self.features.eval()
        with torch.no_grad():
            probe = self.features(torch.zeros(1, 3, image_size, image_size).to(device0))
        self.features.train()
        channels, width = probe.shape[1], probe.shape[-1]
        self.classifier = nn.Linear(channels * width * width, classes).to(device1)

    def forward(self, images):
        hidden = torch.flatten(self.features(images.to(self.device0)), 1)
        return self.classifier(hidden.to(self.device1))


# %% wrong: statistics_moved
# Asks in training mode, so that a batch normalisation counts the made-up image.

class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.features = features.to(device0)
        with torch.no_grad():
            one_image = torch.zeros(1, 3, image_size, image_size).to(device0)
            in_features = self.features(one_image).numel()
        self.classifier = nn.Linear(in_features, classes).to(device1)

    def forward(self, images):
        hidden = self.features(images.to(self.device0)).flatten(1)
        return self.classifier(hidden.to(self.device1))


# %% wrong: ten_classes_typed
# Types the ten classes of the lesson.

class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.features = features.to(device0)
        with torch.no_grad():
            in_features = self.features(torch.zeros(1, 3, image_size, image_size, device=device0)).numel()
        self.classifier = nn.Linear(in_features, 10).to(device1)

    def forward(self, images):
        hidden = self.features(images.to(self.device0)).flatten(1)
        return self.classifier(hidden.to(self.device1))


# %% right: asked_before_the_move
# Asks the features while they are on the CPU still, with a random batch, and multiplies the shape.

class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        _, channels, height, width = features.eval()(torch.randn(2, 3, image_size, image_size)).shape
        features.train()
        self.part0 = features.to(device0)
        self.part1 = nn.Sequential(nn.Flatten(), nn.Linear(channels * height * width, classes)).to(device1)

    def forward(self, images):
        x = self.part0(images.to(self.device0))
        x = x.to(self.device1)
        return self.part1(x)


# %% right: asked_on_meta
# Asks a copy of the features on the meta device, where only shapes are computed.

import copy


class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        on_meta = copy.deepcopy(features).to("meta").eval()
        size = on_meta(torch.empty(1, 3, image_size, image_size, device="meta"))[0].numel()
        self.features = features.to(device0)
        self.classifier = nn.Linear(size, classes, device=device1)

    def forward(self, images):
        hidden = self.features(images.to(self.device0))
        hidden = hidden.to(self.device1).view(images.size(0), -1)
        return self.classifier(hidden)


# %% right: helper_in_eval_mode
# Has a helper that asks in eval mode, and warns of what it found.

import warnings


def numbers_per_image(module, image):
    was_training = module.training
    module.eval()
    with torch.inference_mode():
        shape = module(image).shape
    module.train(was_training)
    return shape[1:].numel()


class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.features = features.to(device0)
        n = numbers_per_image(self.features, torch.ones(1, 3, image_size, image_size).to(device0))
        warnings.warn(f"{n} numbers per image", stacklevel=1)
        self.head = nn.Linear(n, classes).to(device1)

    def forward(self, images):
        hidden = self.features(images.to(self.device0)).flatten(1)
        return self.head(hidden.to(self.device1))


# %% right: lazy_linear
# Lets nn.LazyLinear find the size in the first forward pass.

class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.features = features.to(device0)
        self.flatten = nn.Flatten()
        self.classifier = nn.LazyLinear(classes).to(device1)

    def forward(self, images):
        return self.classifier(self.flatten(self.features(images.to(self.device0))).to(self.device1))


# %% wrong: resets_the_statistics
# Asks in training mode and resets the statistics, so that those of trained features are lost.

class SplitCNN(nn.Module):
    def __init__(self, features, image_size, classes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.features = features.to(device0)
        with torch.no_grad():
            found = self.features(torch.zeros(2, 3, image_size, image_size, device=device0))
        for module in self.features.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.reset_running_stats()
        self.classifier = nn.Linear(found[0].numel(), classes).to(device1)

    def forward(self, images):
        x = self.features(images.to(self.device0)).flatten(1)
        return self.classifier(x.to(self.device1))
