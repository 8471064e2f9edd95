# %% wrong: attention_only
# Keeps attention and leaves room unused.
from torch.utils.checkpoint import CheckpointPolicy

def policy(ctx, op, *args, **kwargs):
    if "attention" in str(op):
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


# %% wrong: every_product
# Keeps all products, which is over the cap.
from torch.utils.checkpoint import CheckpointPolicy

def policy(ctx, op, *args, **kwargs):
    if "attention" in str(op) or op is torch.ops.aten.mm.default:
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


# %% wrong: down_too
# Keeps all products with small outputs, down's included, which backward does not need.
from torch.utils.checkpoint import CheckpointPolicy

def policy(ctx, op, *args, **kwargs):
    if "attention" in str(op):
        return CheckpointPolicy.MUST_SAVE
    if op is torch.ops.aten.mm.default and args[1].shape[1] <= 4096:
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


# %% wrong: norms_instead_of_products
# Keeps norms, because they are many.
from torch.utils.checkpoint import CheckpointPolicy

def policy(ctx, op, *args, **kwargs):
    keep = "attention" in str(op) or "norm" in str(op)
    return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE


# %% wrong: no_attention
# Keeps the four small products, and recomputes attention.
from torch.utils.checkpoint import CheckpointPolicy

def policy(ctx, op, *args, **kwargs):
    if op is torch.ops.aten.mm.default:
        inputs, outputs = args[1].shape
        if inputs == 4096 and outputs <= 4096:
            return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


# %% wrong: returns_true
# Returns True for what is to be kept, and nothing for the rest.

def policy(ctx, op, *args, **kwargs):
    return True if "attention" in str(op) else None


# %% right: a_table_of_shapes
# Knows the shapes to keep, and requires the rest to be recomputed.
from torch.utils.checkpoint import CheckpointPolicy

KEPT = {(4096, 4096), (4096, 1024)}

def policy(ctx, op, *args, **kwargs):
    if "attention" in str(op):
        return CheckpointPolicy.MUST_SAVE
    if str(op) == "aten.mm.default" and tuple(args[1].shape) in KEPT:
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.MUST_RECOMPUTE


# %% right: without_wide_products
# Leaves out all products that the wide layers have a part in.
from torch.utils.checkpoint import CheckpointPolicy

def policy(ctx, op, *args, **kwargs):
    saved = CheckpointPolicy.MUST_SAVE
    if op == torch.ops.aten.mm.default and 14336 not in args[1].shape:
        return saved
    return saved if "attention" in str(op) else CheckpointPolicy.PREFER_RECOMPUTE
