# %% wrong: the_last_device_for_all
# Makes all hooks in one loop, so each of them uses the device that the loop had last.

def place(model, plan):
    def moved(value, device):
        return value.to(device) if isinstance(value, torch.Tensor) else value

    for name, device in plan.items():
        part = model.get_submodule(name)
        part.to(device)

        def hook(part, args, kwargs):
            return tuple(moved(a, device) for a in args), {k: moved(v, device) for k, v in kwargs.items()}

        part.register_forward_pre_hook(hook, with_kwargs=True)
    return model


# %% wrong: positional_only
# Moves what is given by place, and forgets what is given by name.

def place(model, plan):
    for name, device in plan.items():
        part = model.get_submodule(name).to(device)

        def hook(part, args, device=device):
            return tuple(a.to(device) if isinstance(a, torch.Tensor) else a for a in args)

        part.register_forward_pre_hook(hook)
    return model


# %% wrong: first_argument_only
# Thinks that a part has one input.

def place(model, plan):
    for name, device in plan.items():
        part = model.get_submodule(name).to(device)
        part.register_forward_pre_hook(lambda part, args, device=device: (args[0].to(device), *args[1:]))
    return model


# %% wrong: everything_has_to
# Calls .to on every argument, also where it is None or a number.

def place(model, plan):
    for name, device in plan.items():
        part = model.get_submodule(name).to(device)

        def hook(part, args, kwargs, device=device):
            return tuple(a.to(device) for a in args), {k: v.to(device) for k, v in kwargs.items()}

        part.register_forward_pre_hook(hook, with_kwargs=True)
    return model


# %% wrong: direct_children_only
# Looks for parts among the direct children, and leaves those that lie deeper.

def place(model, plan):
    for name, part in model.named_children():
        if name in plan:
            device = plan[name]
            part.to(device)

            def hook(part, args, kwargs, device=device):
                args = tuple(a.to(device) if torch.is_tensor(a) else a for a in args)
                return args, {k: v.to(device) if torch.is_tensor(v) else v for k, v in kwargs.items()}

            part.register_forward_pre_hook(hook, with_kwargs=True)
    return model


# %% wrong: hook_returns_nothing
# Thinks that moved names change what the part is given; the hook returns nothing.

def place(model, plan):
    for name, device in plan.items():
        part = model.get_submodule(name).to(device)

        def hook(part, args, kwargs, device=device):
            args = tuple(a.to(device) if torch.is_tensor(a) else a for a in args)
            kwargs = {k: v.to(device) if torch.is_tensor(v) else v for k, v in kwargs.items()}

        part.register_forward_pre_hook(hook, with_kwargs=True)
    return model


# %% wrong: parts_moved_only
# Moves the parts, and thinks that the data follows.

def place(model, plan):
    for name, device in plan.items():
        model.get_submodule(name).to(device)
    return model


# %% wrong: a_sequential_of_the_parts
# Builds a new model from the parts in the plan.

def place(model, plan):
    class Moving(nn.Module):
        def __init__(self, part, device):
            super().__init__()
            self.part, self.device = part.to(device), device

        def forward(self, x):
            return self.part(x.to(self.device))

    return nn.Sequential(*(Moving(model.get_submodule(name), device) for name, device in plan.items()))


# %% wrong: returns_nothing
# Changes the model, and does not return it.

def place(model, plan):
    def mover(device):
        def move(value):
            return value.to(device) if isinstance(value, torch.Tensor) else value

        return lambda part, args, kwargs: (tuple(map(move, args)), {k: move(v) for k, v in kwargs.items()})

    for name, device in plan.items():
        part = model.get_submodule(name).to(device)
        part.register_forward_pre_hook(mover(device), with_kwargs=True)


# %% wrong: parts_wrapped
# Puts each part into another module, so all its parameters get longer names.

class On(nn.Module):
    def __init__(self, part, device):
        super().__init__()
        self.part, self.device = part.to(device), device

    def forward(self, *args, **kwargs):
        args = [a.to(self.device) if torch.is_tensor(a) else a for a in args]
        kwargs = {k: v.to(self.device) if torch.is_tensor(v) else v for k, v in kwargs.items()}
        return self.part(*args, **kwargs)


def place(model, plan):
    for name, device in plan.items():
        where, _, last = name.rpartition(".")
        setattr(model.get_submodule(where), last, On(model.get_submodule(name), device))
    return model


# %% wrong: moved_without_the_graph
# Moves the data of the tensors, so no gradient comes back.

def place(model, plan):
    def mover(device):
        def move(value):
            return value.detach().to(device) if isinstance(value, torch.Tensor) else value

        return lambda part, args, kwargs: (tuple(map(move, args)), {k: move(v) for k, v in kwargs.items()})

    for name, device in plan.items():
        part = model.get_submodule(name).to(device)
        part.register_forward_pre_hook(mover(device), with_kwargs=True)
    return model


# %% wrong: every_argument_a_tensor
# Has one way for all arguments: what is no tensor is made one, on the device.

def place(model, plan):
    def hook_for(device):
        def there(value):
            return torch.tensor(value, device=device) if isinstance(value, (int, float)) else value

        def hook(part, args, kwargs):
            args = [arg.to(device) if isinstance(arg, torch.Tensor) else there(arg) for arg in args]
            kwargs = {k: v.to(device) if isinstance(v, torch.Tensor) else there(v) for k, v in kwargs.items()}
            return tuple(args), kwargs

        return hook

    for name, device in plan.items():
        part = model.get_submodule(name).to(device)
        part.register_forward_pre_hook(hook_for(device), with_kwargs=True)
    return model


# %% wrong: where_the_weights_are
# Finds the device by the part's weights, and skips parts that have none.

def place(model, plan):
    def hook(part, args, kwargs):
        for weight in part.parameters():
            args = tuple(a.to(weight.device) if torch.is_tensor(a) else a for a in args)
            kwargs = {k: v.to(weight.device) if torch.is_tensor(v) else v for k, v in kwargs.items()}
            break
        return args, kwargs

    for name in plan:
        model.get_submodule(name).to(plan[name])
        model.get_submodule(name).register_forward_pre_hook(hook, with_kwargs=True)
    return model


# %% wrong: only_floating_point_tensors_move
# Moves what can have a gradient. Tokens and masks stay where they are.

def place(model, plan):
    for name, device in plan.items():
        part = model.get_submodule(name).to(device)

        def moved(value, device=device):
            return value.to(device) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

        def hook(part, args, kwargs, moved=moved):
            return tuple(map(moved, args)), {name: moved(value) for name, value in kwargs.items()}

        part.register_forward_pre_hook(hook, with_kwargs=True)
    return model


# %% wrong: none_is_dropped
# Thinks that an argument which is None can be left out, so the others change their places.

def place(model, plan):
    for name, device in plan.items():
        part = model.get_submodule(name).to(device)

        def moved(value, device=device):
            return value.to(device) if isinstance(value, torch.Tensor) else value

        def hook(part, args, kwargs, moved=moved):
            return tuple(moved(a) for a in args if a is not None), {k: moved(v) for k, v in kwargs.items()}

        part.register_forward_pre_hook(hook, with_kwargs=True)
    return model


# %% wrong: none_by_keyword_is_dropped
# Leaves keyword arguments out that are None, also where the part has no default for them.

def place(model, plan):
    for name, device in plan.items():
        part = model.get_submodule(name).to(device)

        def moved(value, device=device):
            return value.to(device) if isinstance(value, torch.Tensor) else value

        def hook(part, args, kwargs, moved=moved):
            return tuple(map(moved, args)), {k: moved(v) for k, v in kwargs.items() if v is not None}

        part.register_forward_pre_hook(hook, with_kwargs=True)
    return model


# %% wrong: hook_for_one_call
# Takes each hook out when it has been called, as those of a recording.

def place(model, plan):
    for name, device in plan.items():
        part, handles = model.get_submodule(name).to(device), []

        def moved(value, device=device):
            return value.to(device) if isinstance(value, torch.Tensor) else value

        def hook(part, args, kwargs, moved=moved, handles=handles):
            handles[0].remove()
            return tuple(map(moved, args)), {k: moved(v) for k, v in kwargs.items()}

        handles.append(part.register_forward_pre_hook(hook, with_kwargs=True))
    return model


# %% right: partial
# Gives each hook its device with functools.partial.

from functools import partial


def _move(device, module, args, kwargs):
    to = lambda v: v.to(device) if isinstance(v, torch.Tensor) else v
    return tuple(to(a) for a in args), {k: to(v) for k, v in kwargs.items()}


def place(model, plan):
    modules = dict(model.named_modules())
    for name, device in plan.items():
        modules[name].to(device)
        modules[name].register_forward_pre_hook(partial(_move, device), with_kwargs=True)
    return model


# %% right: a_class_for_the_hook
# Writes a class whose objects remember a device and can be called.

class MoveTo:
    def __init__(self, device):
        self.device = device

    def one(self, value):
        if torch.is_tensor(value):
            return value.to(self.device)
        return value

    def __call__(self, part, args, kwargs):
        new_args = []
        for value in args:
            new_args.append(self.one(value))
        new_kwargs = {}
        for key, value in kwargs.items():
            new_kwargs[key] = self.one(value)
        return tuple(new_args), new_kwargs


def place(model, plan):
    for name, part in model.named_modules():
        if name in plan:
            part.to(plan[name])
            part.register_forward_pre_hook(MoveTo(plan[name]), with_kwargs=True)
    return model


# %% right: default_argument
# Binds the device as a default of the hook.

def place(model, plan):
    for name, device in plan.items():
        part = model.get_submodule(name)
        part.to(device)

        def hook(part, args, kwargs, device=device):
            args = [a.to(device) if isinstance(a, torch.Tensor) else a for a in args]
            for key in kwargs:
                if isinstance(kwargs[key], torch.Tensor):
                    kwargs[key] = kwargs[key].to(device)
            return tuple(args), kwargs

        part.register_forward_pre_hook(hook, with_kwargs=True)
    return model


# %% right: forward_of_the_object
# Puts another forward on each part's object, which moves and then calls the old one.

def place(model, plan):
    def to(device, value):
        return value.to(device) if isinstance(value, torch.Tensor) else value

    def moving(old, device):
        def forward(*args, **kwargs):
            return old(*(to(device, a) for a in args), **{k: to(device, v) for k, v in kwargs.items()})

        return forward

    for name, device in plan.items():
        part = model.get_submodule(name).to(device)
        part.forward = moving(part.forward, device)
    return model


# %% right: whatever_has_to
# Moves whatever can be moved, without asking for its class.

import contextlib


def place(model, plan):
    def hook_for(device):
        def there(value):
            with contextlib.suppress(AttributeError):
                value = value.to(device)
            return value

        return lambda _, args, kwargs: (tuple([there(a) for a in args]), {k: there(v) for k, v in kwargs.items()})

    for name, device in plan.items():
        part = dict(model.named_modules())[name]
        part.to(device).register_forward_pre_hook(hook_for(device), with_kwargs=True)
    return model


# %% wrong: placed_for_evaluation
# Thinks that a model is placed in order to be used, and puts it into evaluation mode.

def place(model, plan):
    def move_inputs_to(device):  # a function of its own, so that each hook remembers its own device
        def moved(value):
            return value.to(device) if isinstance(value, torch.Tensor) else value

        def hook(part, args, kwargs):
            return tuple(map(moved, args)), {name: moved(value) for name, value in kwargs.items()}

        return hook

    for name, device in plan.items():
        part = model.get_submodule(name).to(device)
        part.register_forward_pre_hook(move_inputs_to(device), with_kwargs=True)
    return model.eval()
