# %% wrong: dropout_stays_on
# Compares the models as they are.

def largest_difference(whole, split, batch):
    return (whole(batch).cpu() - split(batch).cpu()).abs().max().item()


# %% wrong: dropout_off_in_one
# Switches dropout off in the split model only.

def largest_difference(whole, split, batch):
    split.eval()
    found = (whole(batch).cpu() - split(batch).cpu()).abs().max().item()
    split.train()
    return found


# %% wrong: one_seed
# Thinks that one seed gives both models the same masks.

def largest_difference(whole, split, batch):
    torch.manual_seed(0)
    one = whole(batch).cpu()
    torch.manual_seed(1)
    two = split(batch).cpu()
    return (one - two).abs().max().item()


# %% wrong: outputs_on_two_devices
# Subtracts where the outputs are.

def largest_difference(whole, split, batch):
    whole.eval()
    split.eval()
    one, two = whole(batch), split(batch)
    whole.train()
    split.train()
    return (one - two).abs().max().item()


# %% wrong: mean_of_the_differences
# Takes the mean, in which one wrong output hardly counts.

def largest_difference(whole, split, batch):
    whole.eval()
    split.eval()
    one, two = whole(batch).cpu(), split(batch).cpu()
    whole.train()
    split.train()
    return (one - two).abs().mean().item()


# %% wrong: sign_kept
# Forgets abs(), so that negative differences do not count.

def largest_difference(whole, split, batch):
    whole.eval()
    split.eval()
    one, two = whole(batch).cpu(), split(batch).cpu()
    whole.train()
    split.train()
    return (one - two).max().item()


# %% wrong: dropout_never_on_again
# Leaves both models in eval mode: training goes on without dropout.

def largest_difference(whole, split, batch):
    whole.eval()
    split.eval()
    return (whole(batch).cpu() - split(batch).cpu()).abs().max().item()


# %% wrong: a_tensor_is_returned
# Returns a tensor with one element.

def largest_difference(whole, split, batch):
    whole.eval()
    split.eval()
    one, two = whole(batch).cpu(), split(batch).cpu()
    whole.train()
    split.train()
    return (one - two).abs().max()


# %% right: without_a_graph
# A loop over both models, no graph, and the norm that takes the largest.

def largest_difference(whole, split, batch):
    outputs = []
    for model in (whole, split):
        was = model.training
        model.eval()
        with torch.no_grad():
            outputs.append(model(batch).to("cpu"))
        model.train(was)
    one, two = outputs
    return float(torch.linalg.vector_norm(one - two, ord=float("inf")))
