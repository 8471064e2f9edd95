# %% wrong: adam_forgotten
# Counts parameters and gradients, and forgets what Adam keeps.

class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        cut, used = 0, 0
        for layer in layers:
            need = 2 * sum(p.numel() * p.element_size() for p in layer.parameters())
            if used + need > memory0:
                break
            used += need
            cut += 1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))


# %% wrong: four_bytes_always
# Thinks that every number has four bytes.

class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        cut, used = 0, 0
        for layer in layers:
            need = 20 * sum(p.numel() for p in layer.parameters())
            if used + need > memory0:
                break
            used += need
            cut += 1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))


# %% wrong: four_times
# Counts what is held between two steps, and not what a step needs at its peak.

class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        cut, used = 0, 0
        for layer in layers:
            used += 4 * sum(p.numel() * p.element_size() for p in layer.parameters())
            if used > memory0:
                break
            cut += 1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))


# %% wrong: full_does_not_fit
# Thinks that a device may not be filled to the last byte.

class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        cut, used = 0, 0
        for layer in layers:
            need = 5 * sum(p.numel() * p.element_size() for p in layer.parameters())
            if used + need >= memory0:
                break
            used += need
            cut += 1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))


# %% wrong: half_of_the_layers
# Cuts in the middle, and does not look at memory0.

class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        half = len(layers) // 2
        self.part0 = layers[:half].to(device0)
        self.part1 = layers[half:].to(device1)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))


# %% wrong: last_layer_always_moves
# Leaves the last layer for device1 even where all have room.

class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        cut, used = 0, 0
        for layer in layers[:-1]:
            used += 5 * sum(p.numel() * p.element_size() for p in layer.parameters())
            if used > memory0:
                break
            cut += 1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))


# %% wrong: layers_without_weights_first
# Sorts out the layers without parameters, because they fit anywhere, and so changes the order.

class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        heavy = [layer for layer in layers if list(layer.parameters())]
        light = [layer for layer in layers if not list(layer.parameters())]
        cut, used = 0, 0
        for layer in heavy:
            used += 5 * sum(p.numel() * p.element_size() for p in layer.parameters())
            if used > memory0:
                break
            cut += 1
        self.part0 = nn.Sequential(*light, *heavy[:cut]).to(device0)
        self.part1 = nn.Sequential(*heavy[cut:]).to(device1)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))


# %% wrong: notebook_devices
# Uses the devices of the notebook by name, not those that it was given.

class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        cut, used = 0, 0
        for layer in layers:
            need = 5 * sum(p.numel() * p.element_size() for p in layer.parameters())
            if used + need > memory0:
                break
            used += need
            cut += 1
        self.part0 = layers[:cut].to("simgpu:0")
        self.part1 = layers[cut:].to("simgpu:1")

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))


# %% wrong: numbers_not_bytes
# Counts numbers where bytes are meant.

class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        cut, used = 0, 0
        for layer in layers:
            need = 5 * sum(p.numel() for p in layer.parameters())
            if used + need > memory0:
                break
            used += need
            cut += 1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))


# %% wrong: one_layer_at_least
# Gives device0 one layer at least, whether it fits or not.

class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        cut, used = 0, 0
        for layer in layers:
            used += 5 * sum(p.numel() * p.element_size() for p in layer.parameters())
            if used > memory0:
                break
            cut += 1
        cut = max(cut, 1)
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))


# %% wrong: parameters_only
# Thinks that a layer takes the bytes of its parameters, and forgets what training adds.

class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        cut, used = 0, 0
        for layer in layers:
            need = sum(p.numel() * p.element_size() for p in layer.parameters())
            if used + need > memory0:
                break
            used += need
            cut += 1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))


# %% wrong: smaller_ones_jump_ahead
# Puts every layer that still fits on device0, also one that comes after the first that did not.

class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        first, second, used = [], [], 0
        for layer in layers:
            need = 5 * sum(p.numel() * p.element_size() for p in layer.parameters())
            if used + need <= memory0:
                used += need
                first.append(layer)
            else:
                second.append(layer)
        self.part0 = nn.Sequential(*first).to(device0)
        self.part1 = nn.Sequential(*second).to(device1)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))


# %% wrong: tests_too_late
# Adds a layer and tests afterwards, so that the one that does not fit is still put on device0.

class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        cut, used = 0, 0
        while cut < len(layers) and used <= memory0:
            used += 5 * sum(p.numel() * p.element_size() for p in layers[cut].parameters())
            cut += 1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))


# %% wrong: weights_without_biases
# Counts the weights and forgets the biases.

class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        cut, used = 0, 0
        for layer in layers:
            need = 5 * layer.weight.numel() * layer.weight.element_size() if hasattr(layer, 'weight') else 0
            if used + need > memory0:
                break
            used += need
            cut += 1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))


# %% wrong: whole_model_kept_there
# Computes the right cut, but keeps the whole stack on device0 for later.

class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        import copy

        cut, used = 0, 0
        for layer in layers:
            used += 5 * sum(p.numel() * p.element_size() for p in layer.parameters())
            if used > memory0:
                break
            cut += 1
        self.backup = [copy.deepcopy(layers).to(device0)]
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))


# %% wrong: buffers_have_gradients
# Adds up the buffers with the parameters, as if they were trained.

class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        cut, used = 0, 0
        for layer in layers:
            used += 5 * sum(t.nbytes for t in [*layer.parameters(), *layer.buffers()])
            if used > memory0:
                break
            cut += 1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))


# %% wrong: frozen_like_trained
# Counts what training takes for frozen parameters, too.

class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        cut, used = 0, 0
        for layer in layers:
            for p in layer.parameters():
                used += 5 * p.numel() * p.element_size()
            if used > memory0:
                break
            cut += 1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))


# %% wrong: frozen_takes_nothing
# Counts trained parameters only, though the frozen ones are on the device as well.

class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        cut, used = 0, 0
        for layer in layers:
            for p in layer.parameters():
                used += 5 * p.numel() * p.element_size() * p.requires_grad
            if used > memory0:
                break
            cut += 1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))


# %% wrong: shared_counts_twice
# Counts a weight that two layers share once for each of them.

class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        cut, used = 0, 0
        for layer in layers:
            for p in layer.parameters():
                used += (5 if p.requires_grad else 1) * p.numel() * p.element_size()
            if used > memory0:
                break
            cut += 1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))


# %% right: accumulate
# Adds up with itertools, and names its layers otherwise in a forward of its own.

import warnings
from itertools import accumulate


class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        owners = {p: n for n, layer in reversed([*enumerate(layers)]) for p in layer.parameters()}  # the first of them
        taken = [0] * len(layers)
        for p, n in owners.items():
            taken[n] += (1 + 4 * p.requires_grad) * p.numel() * p.itemsize
        cut = sum(need <= memory0 for need in accumulate(taken))
        warnings.warn(f"{cut} layers fit")
        self.blocks = nn.ModuleList(layer.to(device0 if n < cut else device1) for n, layer in enumerate(layers))
        self.cut = cut

    def forward(self, x):
        for number, block in enumerate(self.blocks):
            x = block(x.to(self.device0 if number < self.cut else self.device1))
        return x.to(self.device1)


# %% right: tries_cuts
# Tries the cuts from the largest to the smallest, and prints what it found.

class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        def training_bytes(part):
            trained = [p for p in part.parameters() if p.requires_grad]
            return sum(p.nbytes for p in part.parameters()) + 4 * sum(p.nbytes for p in trained)

        cut = next(c for c in range(len(layers), -1, -1) if training_bytes(layers[:c]) <= memory0)
        print("cut after", cut)
        self.part1 = layers[cut:].to(device1)
        self.part0 = layers[:cut].to(device0)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))


# %% right: two_lists
# Gives the layers out one by one to two lists, and moves each at once.

class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        first, second, counted, free = [], [], set(), memory0
        for layer in layers:
            for p in set(layer.parameters()) - counted:
                free -= p.nbytes * (5 if p.requires_grad else 1)
                counted.add(p)
            if free >= 0:
                first.append(layer.to(device0))
            else:
                second.append(layer.to(device1))
        self.part0, self.part1 = nn.Sequential(*first), nn.Sequential(*second)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))


# %% wrong: whatever_fits
# Goes on after a layer that does not fit, and puts later, smaller ones on device0 where these have room.

class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        used, counted, parts = 0, set(), ([], [])
        part = parts[0]
        for layer in layers:
            new = set(layer.parameters()) - counted
            if new:  # a layer without parameters goes where the one before it went
                need = sum((5 if p.requires_grad else 1) * p.nbytes for p in new)
                part = parts[0] if used + need <= memory0 else parts[1]
                used += need if part is parts[0] else 0
                counted |= new
            part.append(layer)
        self.part0 = nn.Sequential(*parts[0]).to(device0)
        self.part1 = nn.Sequential(*parts[1]).to(device1)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))


# %% wrong: frozen_in_front_only
# Thinks that only the first layers of a model can be frozen, and counts those further on as if they were trained.

class FitInTwo(nn.Module):
    def __init__(self, layers, memory0, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        cut, used, counted, front = 0, 0, set(), True
        for layer in layers:
            new = set(layer.parameters()) - counted
            front = front and not any(p.requires_grad for p in new)
            used += sum((1 if front else 5) * p.nbytes for p in new)
            if used > memory0:
                break
            counted |= new
            cut += 1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1))
