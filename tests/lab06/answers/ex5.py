# %% wrong: all_on_first
# Computes all on the first device and moves the output.

class SplitEncoder(nn.Module):
    def __init__(self, encoder, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.cut = cut
        self.layers = encoder.layers
        self.norm = encoder.norm
        for number, layer in enumerate(self.layers):
            layer.to(device0)
        if self.norm is not None:
            self.norm.to(device0)

    def forward(self, x, mask=None):
        for number, layer in enumerate(self.layers):
            device = self.device0
            x = x.to(device)
            layer_mask = None if mask is None else mask.to(device)
            x = layer(x, layer_mask)
        return (x if self.norm is None else self.norm(x)).to(self.device1)


# %% wrong: always_a_causal_mask
# Takes it that every mask is a causal one, and makes that anew on each device.

class SplitEncoder(nn.Module):
    def __init__(self, encoder, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = encoder.layers[:cut].to(device0)
        self.part1 = encoder.layers[cut:].to(device1)
        self.norm = encoder.norm.to(device1) if encoder.norm is not None else nn.Identity()

    def forward(self, x, mask=None):
        for part, device in ((self.part0, self.device0), (self.part1, self.device1)):
            x = x.to(device)
            if mask is not None:
                mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1]).to(device)
            for layer in part:
                x = layer(x, mask)
        return self.norm(x)


# %% wrong: always_a_norm
# Thinks that every encoder has a norm.

class SplitEncoder(nn.Module):
    def __init__(self, encoder, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.cut = cut
        self.layers = encoder.layers
        self.norm = encoder.norm
        for number, layer in enumerate(self.layers):
            layer.to(device0 if number < cut else device1)
        self.norm.to(device1)

    def forward(self, x, mask=None):
        for number, layer in enumerate(self.layers):
            device = self.device0 if number < self.cut else self.device1
            x = x.to(device)
            layer_mask = None if mask is None else mask.to(device)
            x = layer(x, layer_mask)
        return x if self.norm is None else self.norm(x)


# %% wrong: always_in_the_middle
# Thinks that splitting in two means two halves, and does not use cut.

class SplitEncoder(nn.Module):
    def __init__(self, encoder, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.cut = cut = len(encoder.layers) // 2
        self.layers = encoder.layers
        self.norm = encoder.norm
        for number, layer in enumerate(self.layers):
            layer.to(device0 if number < cut else device1)
        if self.norm is not None:
            self.norm.to(device1)

    def forward(self, x, mask=None):
        for number, layer in enumerate(self.layers):
            device = self.device0 if number < self.cut else self.device1
            x = x.to(device)
            layer_mask = None if mask is None else mask.to(device)
            x = layer(x, layer_mask)
        return x if self.norm is None else self.norm(x)


# %% wrong: cut_one_too_late
# Puts one layer too many on the first device.

class SplitEncoder(nn.Module):
    def __init__(self, encoder, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.cut = cut = cut + 1
        self.layers = encoder.layers
        self.norm = encoder.norm
        for number, layer in enumerate(self.layers):
            layer.to(device0 if number < cut else device1)
        if self.norm is not None:
            self.norm.to(device1)

    def forward(self, x, mask=None):
        for number, layer in enumerate(self.layers):
            device = self.device0 if number < self.cut else self.device1
            x = x.to(device)
            layer_mask = None if mask is None else mask.to(device)
            x = layer(x, layer_mask)
        return x if self.norm is None else self.norm(x)


# %% wrong: detached_between
# Thinks that a tensor must be detached before it changes its device.

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

    def forward(self, x, mask=None):
        for number, layer in enumerate(self.layers):
            device = self.device0 if number < self.cut else self.device1
            x = x.to(device).detach() if number == self.cut else x.to(device)
            layer_mask = None if mask is None else mask.to(device)
            x = layer(x, layer_mask)
        return x if self.norm is None else self.norm(x)


# %% wrong: dropout_switched_off
# Sets every dropout to 0, so that the split model is exactly the whole one.

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


# %% wrong: first_layer_copied
# Copies the first layer for each, as the encoder's constructor does, but after training.

class SplitEncoder(nn.Module):
    def __init__(self, encoder, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.cut = cut
        import copy

        self.layers = nn.ModuleList(copy.deepcopy(encoder.layers[0]) for _ in encoder.layers)
        self.norm = encoder.norm
        for number, layer in enumerate(self.layers):
            layer.to(device0 if number < cut else device1)
        if self.norm is not None:
            self.norm.to(device1)

    def forward(self, x, mask=None):
        for number, layer in enumerate(self.layers):
            device = self.device0 if number < self.cut else self.device1
            x = x.to(device)
            layer_mask = None if mask is None else mask.to(device)
            x = layer(x, layer_mask)
        return x if self.norm is None else self.norm(x)


# %% wrong: in_evaluation_mode
# Runs the layers in evaluation mode, so that dropout is never on.

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

    def forward(self, x, mask=None):
        for number, layer in enumerate(self.layers):
            device = self.device0 if number < self.cut else self.device1
            layer.eval()
            x = x.to(device)
            layer_mask = None if mask is None else mask.to(device)
            x = layer(x, layer_mask)
        return x if self.norm is None else self.norm(x)


# %% wrong: layers_made_anew
# Makes layers of the same sizes anew, and so loses the trained weights.

class SplitEncoder(nn.Module):
    def __init__(self, encoder, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.cut = cut
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0, batch_first=True) for _ in encoder.layers
        )
        self.norm = encoder.norm
        for number, layer in enumerate(self.layers):
            layer.to(device0 if number < cut else device1)
        if self.norm is not None:
            self.norm.to(device1)

    def forward(self, x, mask=None):
        for number, layer in enumerate(self.layers):
            device = self.device0 if number < self.cut else self.device1
            x = x.to(device)
            layer_mask = None if mask is None else mask.to(device)
            x = layer(x, layer_mask)
        return x if self.norm is None else self.norm(x)


# %% wrong: mask_dropped
# Takes the mask and does not pass it on.

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

    def forward(self, x, mask=None):
        for number, layer in enumerate(self.layers):
            device = self.device0 if number < self.cut else self.device1
            x = x.to(device)
            layer_mask = None if mask is None else mask.to(device)
            x = layer(x)
        return x if self.norm is None else self.norm(x)


# %% wrong: mask_for_the_first_part_only
# Gives the mask to the first part only, because the second gets a masked result.

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

    def forward(self, x, mask=None):
        for number, layer in enumerate(self.layers):
            device = self.device0 if number < self.cut else self.device1
            x = x.to(device)
            layer_mask = None if mask is None or number >= self.cut else mask.to(device)
            x = layer(x, layer_mask)
        return x if self.norm is None else self.norm(x)


# %% wrong: mask_moved_once
# Moves the mask to the first device only.

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

    def forward(self, x, mask=None):
        mask = None if mask is None else mask.to(self.device0)
        for number, layer in enumerate(self.layers):
            device = self.device0 if number < self.cut else self.device1
            x = x.to(device)
            x = layer(x, mask)
        return x if self.norm is None else self.norm(x)


# %% wrong: mask_not_moved
# Moves the batch and forgets the mask.

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

    def forward(self, x, mask=None):
        for number, layer in enumerate(self.layers):
            device = self.device0 if number < self.cut else self.device1
            x = x.to(device)
            layer_mask = mask
            x = layer(x, layer_mask)
        return x if self.norm is None else self.norm(x)


# %% wrong: no_mask_not_expected
# Thinks that there always is a mask.

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

    def forward(self, x, mask=None):
        for number, layer in enumerate(self.layers):
            device = self.device0 if number < self.cut else self.device1
            x = x.to(device)
            layer_mask = mask.to(device)
            x = layer(x, layer_mask)
        return x if self.norm is None else self.norm(x)


# %% wrong: norm_forgotten
# Runs the layers and forgets the norm after the last of them.

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

    def forward(self, x, mask=None):
        for number, layer in enumerate(self.layers):
            device = self.device0 if number < self.cut else self.device1
            x = x.to(device)
            layer_mask = None if mask is None else mask.to(device)
            x = layer(x, layer_mask)
        return x


# %% wrong: norm_left_on_cpu
# Forgets to place the norm.

class SplitEncoder(nn.Module):
    def __init__(self, encoder, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.cut = cut
        self.layers = encoder.layers
        self.norm = encoder.norm
        for number, layer in enumerate(self.layers):
            layer.to(device0 if number < cut else device1)

    def forward(self, x, mask=None):
        for number, layer in enumerate(self.layers):
            device = self.device0 if number < self.cut else self.device1
            x = x.to(device)
            layer_mask = None if mask is None else mask.to(device)
            x = layer(x, layer_mask)
        return x if self.norm is None else self.norm(x)


# %% wrong: norm_on_first
# Puts the norm on the first device, and takes the result there and back.

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
            self.norm.to(device0)

    def forward(self, x, mask=None):
        for number, layer in enumerate(self.layers):
            device = self.device0 if number < self.cut else self.device1
            x = x.to(device)
            layer_mask = None if mask is None else mask.to(device)
            x = layer(x, layer_mask)
        return x if self.norm is None else self.norm(x.to(self.device0)).to(self.device1)


# %% wrong: notebook_devices
# Uses the devices of the notebook in forward, not those that the model was given.

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

    def forward(self, x, mask=None):
        for number, layer in enumerate(self.layers):
            device = globals()['device0' if number < self.cut else 'device1']
            x = x.to(device)
            layer_mask = None if mask is None else mask.to(device)
            x = layer(x, layer_mask)
        return x if self.norm is None else self.norm(x)


# %% wrong: output_to_cpu
# Brings the output back to the CPU, where the batch came from.

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

    def forward(self, x, mask=None):
        for number, layer in enumerate(self.layers):
            device = self.device0 if number < self.cut else self.device1
            x = x.to(device)
            layer_mask = None if mask is None else mask.to(device)
            x = layer(x, layer_mask)
        return (x if self.norm is None else self.norm(x)).cpu()


# %% wrong: plain_list
# Thinks that a plain Python list of layers is as good as a nn.ModuleList.

class SplitEncoder(nn.Module):
    def __init__(self, encoder, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.cut = cut
        self.layers = list(encoder.layers)
        self.norm = encoder.norm
        for number, layer in enumerate(self.layers):
            layer.to(device0 if number < cut else device1)
        if self.norm is not None:
            self.norm.to(device1)

    def forward(self, x, mask=None):
        for number, layer in enumerate(self.layers):
            device = self.device0 if number < self.cut else self.device1
            x = x.to(device)
            layer_mask = None if mask is None else mask.to(device)
            x = layer(x, layer_mask)
        return x if self.norm is None else self.norm(x)


# %% right: deep_copies
# Leaves the encoder alone and splits a copy of it.

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


# %% right: hooks_move_everything
# Keeps the encoder whole and its forward too: hooks move what each layer gets.

class SplitEncoder(nn.Module):
    def __init__(self, encoder, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.encoder = encoder.to(device1)
        for number, layer in enumerate(encoder.layers):
            device = device0 if number < cut else device1
            layer.to(device).register_forward_pre_hook(self.moves_to(device), with_kwargs=True)

    def moves_to(self, device):
        def move(value):
            return value.to(device) if isinstance(value, torch.Tensor) else value

        def hook(layer, inputs, keywords):
            return tuple(map(move, inputs)), {name: move(value) for name, value in keywords.items()}

        return hook

    def forward(self, x, mask=None):
        return self.encoder(x, mask)


# %% right: one_loop
# One loop over all layers, and moves that do nothing where nothing has to move.

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

    def forward(self, x, mask=None):
        for number, layer in enumerate(self.layers):
            device = self.device0 if number < self.cut else self.device1
            x = x.to(device)
            layer_mask = None if mask is None else mask.to(device)
            x = layer(x, layer_mask)
        return x if self.norm is None else self.norm(x)
