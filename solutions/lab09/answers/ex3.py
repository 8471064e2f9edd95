# %% wrong: direct_children_only
# Looks no deeper than at the direct children.

def without_batchnorm(model, groups):
    for name, child in model.named_children():
        if isinstance(child, nn.BatchNorm2d):
            channels = child.num_features
            number = max(n for n in range(1, groups + 1) if channels % n == 0)
            norm = nn.GroupNorm(number, channels).to(child.weight.device)
            norm.load_state_dict({"weight": child.weight, "bias": child.bias})
            setattr(model, name, norm)
    return model


# %% wrong: new_weights
# Leaves the new layers with ones and zeros.

def without_batchnorm(model, groups):
    if isinstance(model, nn.BatchNorm2d):
        channels = model.num_features
        number = max(n for n in range(1, groups + 1) if channels % n == 0)
        return nn.GroupNorm(number, channels).to(model.weight.device)
    for name, child in model.named_children():
        setattr(model, name, without_batchnorm(child, groups))
    return model


# %% wrong: on_the_cpu
# Forgets where the old layer was.

def without_batchnorm(model, groups):
    if isinstance(model, nn.BatchNorm2d):
        channels = model.num_features
        number = max(n for n in range(1, groups + 1) if channels % n == 0)
        norm = nn.GroupNorm(number, channels)
        norm.load_state_dict({"weight": model.weight, "bias": model.bias})
        return norm
    for name, child in model.named_children():
        setattr(model, name, without_batchnorm(child, groups))
    return model


# %% wrong: groups_as_given
# Uses the number of groups as it is given, which need not divide the channels.

def without_batchnorm(model, groups):
    if isinstance(model, nn.BatchNorm2d):
        norm = nn.GroupNorm(groups, model.num_features).to(model.weight.device)
        norm.load_state_dict({"weight": model.weight, "bias": model.bias})
        return norm
    for name, child in model.named_children():
        setattr(model, name, without_batchnorm(child, groups))
    return model


# %% wrong: greatest_common_divisor
# Takes the greatest common divisor of groups and channels.

import math


def without_batchnorm(model, groups):
    if isinstance(model, nn.BatchNorm2d):
        channels = model.num_features
        norm = nn.GroupNorm(math.gcd(groups, channels), channels).to(model.weight.device)
        norm.load_state_dict({"weight": model.weight, "bias": model.bias})
        return norm
    for name, child in model.named_children():
        setattr(model, name, without_batchnorm(child, groups))
    return model


# %% wrong: eval_instead
# Puts the BatchNorm layers into eval mode.

def without_batchnorm(model, groups):
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
    return model


# %% wrong: returns_nothing
# Changes the model and returns nothing.

def without_batchnorm(model, groups):
    for name, child in model.named_children():
        if isinstance(child, nn.BatchNorm2d):
            channels = child.num_features
            number = max(n for n in range(1, groups + 1) if channels % n == 0)
            norm = nn.GroupNorm(number, channels).to(child.weight.device)
            norm.load_state_dict({"weight": child.weight, "bias": child.bias})
            setattr(model, name, norm)
        else:
            without_batchnorm(child, groups)


# %% wrong: identity
# Takes the BatchNorm layers out.

def without_batchnorm(model, groups):
    if isinstance(model, nn.BatchNorm2d):
        return nn.Identity()
    for name, child in model.named_children():
        setattr(model, name, without_batchnorm(child, groups))
    return model


# %% wrong: the_model_itself_forgotten
# Replaces children at any depth, and not the model itself.

def without_batchnorm(model, groups):
    for name, child in model.named_children():
        if isinstance(child, nn.BatchNorm2d):
            channels = child.num_features
            number = max(n for n in range(1, groups + 1) if channels % n == 0)
            norm = nn.GroupNorm(number, channels).to(child.weight.device)
            norm.load_state_dict({"weight": child.weight, "bias": child.bias})
            setattr(model, name, norm)
        else:
            without_batchnorm(child, groups)
    return model


# %% wrong: one_group
# Normalises over all channels, whatever groups says.

def without_batchnorm(model, groups):
    if isinstance(model, nn.BatchNorm2d):
        norm = nn.GroupNorm(1, model.num_features).to(model.weight.device)
        norm.load_state_dict({"weight": model.weight, "bias": model.bias})
        return norm
    for name, child in model.named_children():
        setattr(model, name, without_batchnorm(child, groups))
    return model


# %% wrong: batchnorm_of_any_kind
# Thinks that BatchNorm1d and BatchNorm3d have to go, too.

def without_batchnorm(model, groups):
    if isinstance(model, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)):
        channels = model.num_features
        norm = nn.GroupNorm(max(n for n in range(1, groups + 1) if channels % n == 0), channels)
        norm.weight, norm.bias = model.weight, model.bias
        return norm
    for name, child in model.named_children():
        setattr(model, name, without_batchnorm(child, groups))
    return model


# %% wrong: in_evaluation_mode
# Returns the model in evaluation mode, where layers mind the batch least.

def without_batchnorm(model, groups):
    def replaced(module):
        if isinstance(module, nn.BatchNorm2d):
            channels = module.num_features
            number = max(n for n in range(1, groups + 1) if channels % n == 0)
            norm = nn.GroupNorm(number, channels).to(module.weight.device)
            norm.load_state_dict({"weight": module.weight, "bias": module.bias})
            return norm
        for name, child in module.named_children():
            setattr(module, name, replaced(child))
        return module

    return replaced(model).eval()


# %% right: by_path
# Goes through the names of all modules, and finds the parent of each.

def without_batchnorm(model, groups):
    def replacement(old):
        number = next(n for n in range(groups, 0, -1) if old.num_features % n == 0)
        new = nn.GroupNorm(number, old.num_features, device=old.weight.device)
        with torch.no_grad():
            new.weight.copy_(old.weight)
            new.bias.copy_(old.bias)
        return new

    if isinstance(model, nn.BatchNorm2d):
        return replacement(model)
    for path, module in list(model.named_modules()):
        if isinstance(module, nn.BatchNorm2d):
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, replacement(module))
    return model


# %% right: keeps_the_parameters
# Gives the new layer the old parameters themselves.

def without_batchnorm(model, groups):
    if isinstance(model, nn.BatchNorm2d):
        number = groups
        while model.num_features % number:
            number -= 1
        norm = nn.GroupNorm(number, model.num_features)
        norm.weight, norm.bias = model.weight, model.bias
        return norm
    for name, child in list(model.named_children()):
        model._modules[name] = without_batchnorm(child, groups)
    return model


# %% right: apply
# Uses apply, which visits each module of the model.

def without_batchnorm(model, groups):
    def norm_for(old):
        number = max(n for n in range(1, groups + 1) if old.num_features % n == 0)
        new = nn.GroupNorm(number, old.num_features)
        new.load_state_dict({k: v for k, v in old.state_dict().items() if k in ("weight", "bias")})
        return new.to(old.weight.device)

    def visit(module):
        for name, child in module.named_children():
            if isinstance(child, nn.BatchNorm2d):
                setattr(module, name, norm_for(child))

    if isinstance(model, nn.BatchNorm2d):
        return norm_for(model)
    return model.apply(visit)


# %% right: on_a_copy
# Changes a copy, leaves the model that it is given as it is, and says once more that the copy trains.

import copy


def without_batchnorm(model, groups):
    new = nn.ModuleList([copy.deepcopy(model)])
    for module in list(new.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.BatchNorm2d:
                number = next(n for n in range(groups, 0, -1) if child.num_features % n == 0)
                norm = nn.GroupNorm(number, child.num_features, device=child.weight.device)
                with torch.no_grad():
                    norm.weight.copy_(child.weight)
                    norm.bias.copy_(child.bias)
                module.register_module(name, norm)
    return new[0].train()


# %% wrong: one_group_less
# Takes one group less where their number does not divide the channels, without asking whether that one does.

def without_batchnorm(model, groups):
    if isinstance(model, nn.BatchNorm2d):
        channels = model.num_features
        number = groups if channels % groups == 0 else groups - 1
        norm = nn.GroupNorm(number, channels, eps=model.eps).to(model.weight.device)
        norm.load_state_dict({"weight": model.weight, "bias": model.bias})
        return norm
    for name, child in model.named_children():
        setattr(model, name, without_batchnorm(child, groups))
    return model
