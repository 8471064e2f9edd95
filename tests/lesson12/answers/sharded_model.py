# %% wrong: whole_model_first
# Builds the model on every GPU, and shards it then: what does not fit on one GPU fails here.


def sharded_model(make, gpu):
    import torch
    from torch import nn
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = make().to(gpu)
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mp_policy=policy)
    return fully_shard(model, mp_policy=policy)


# %% wrong: empty_before_sharded
# to_empty before fully_shard gives memory to the whole model.


def sharded_model(make, gpu):
    import torch
    from torch import nn
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    with torch.device("meta"):
        model = make()
    model.to_empty(device=gpu)
    layers = [layer for layer in model if isinstance(layer, nn.Linear)]
    for layer in layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    for layer in layers:
        layer.reset_parameters()
    return model


# %% wrong: never_initialized
# Takes what to_empty finds in memory for weights.


def sharded_model(make, gpu):
    import torch
    from torch import nn
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    with torch.device("meta"):
        model = make()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    return model.to_empty(device=gpu)


# %% wrong: root_only
# One fully_shard for all: the whole model is all-gathered at once.


def sharded_model(make, gpu):
    import torch
    from torch import nn
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    with torch.device("meta"):
        model = make()
    fully_shard(model, mp_policy=policy)
    model.to_empty(device=gpu)
    for layer in model:
        if isinstance(layer, nn.Linear):
            layer.reset_parameters()
    return model


# %% wrong: stays_on_meta
# Shards of nothing.


def sharded_model(make, gpu):
    import torch
    from torch import nn
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    with torch.device("meta"):
        model = make()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mp_policy=policy)
    return fully_shard(model, mp_policy=policy)


# %% wrong: no_policy
# Computes and sends in float32.


def sharded_model(make, gpu):
    import torch
    from torch import nn
    from torch.distributed.fsdp import fully_shard

    with torch.device("meta"):
        model = make()
    layers = [layer for layer in model if isinstance(layer, nn.Linear)]
    for layer in layers:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    for layer in layers:
        layer.reset_parameters()
    return model


# %% wrong: reduced_in_bfloat16
# One dtype for everything.


def sharded_model(make, gpu):
    import torch
    from torch import nn
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    with torch.device("meta"):
        model = make()
    layers = [layer for layer in model if isinstance(layer, nn.Linear)]
    for layer in layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    model.to_empty(device=gpu)
    for layer in layers:
        layer.reset_parameters()
    return model


# %% right: by_name_and_by_hand
# Finds layers by their names, and draws the weights with nn.init.


def sharded_model(make, gpu):
    import torch
    from torch import nn
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    how = {"mp_policy": MixedPrecisionPolicy(torch.bfloat16, torch.float32)}
    with torch.device("meta"):
        model = make()
    for _, child in model.named_children():
        if list(child.parameters()):
            fully_shard(child, **how)
    fully_shard(model, **how)
    model.to_empty(device=gpu)
    with torch.no_grad():
        for p in model.parameters():
            bound = p.shape[-1] ** -0.5
            p.uniform_(-bound, bound)
    return model
