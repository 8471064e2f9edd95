# %% wrong: mean_of_outputs
# Averages the outputs, as if both blocks had the same denominator.

def merge(out, lse, out2, lse2):
    return (out + out2) / 2, torch.logaddexp(lse, lse2)


# %% wrong: sum_of_outputs
# Adds outputs, which are already divided.

def merge(out, lse, out2, lse2):
    return out + out2, torch.logaddexp(lse, lse2)


# %% wrong: weighted_by_logarithms
# Takes the logarithms for the denominators.

def merge(out, lse, out2, lse2):
    return (out * lse + out2 * lse2) / (lse + lse2), lse + lse2


# %% wrong: overflows
# The formula as it stands: exp of a large score is inf.

def merge(out, lse, out2, lse2):
    total = lse.exp() + lse2.exp()
    return (out * lse.exp() + out2 * lse2.exp()) / total, total.log()


# %% wrong: sum_of_logarithms
# The sum of logarithms is the logarithm of the product.

def merge(out, lse, out2, lse2):
    both = torch.logaddexp(lse, lse2)
    return out * (lse - both).exp() + out2 * (lse2 - both).exp(), lse + lse2


# %% wrong: denominator_without_logarithm
# Returns the denominator itself.

def merge(out, lse, out2, lse2):
    most = torch.maximum(lse, lse2)
    one, two = (lse - most).exp(), (lse2 - most).exp()
    return (out * one + out2 * two) / (one + two), one + two


# %% wrong: in_place
# Writes the result into the first block, which the caller may still need.

def merge(out, lse, out2, lse2):
    both = torch.logaddexp(lse, lse2)
    out *= (lse - both).exp()
    out += out2 * (lse2 - both).exp()
    return out, both


# %% wrong: output_only
# Forgets the log-sum-exp, without which a third block cannot be merged.

def merge(out, lse, out2, lse2):
    both = torch.logaddexp(lse, lse2)
    return out * (lse - both).exp() + out2 * (lse2 - both).exp()


# %% right: sigmoid
# The second block's share is a sigmoid of the difference.

def merge(out, lse, out2, lse2):
    share = torch.sigmoid(lse2 - lse)
    return out + share * (out2 - out), torch.logaddexp(lse, lse2)


# %% right: by_the_larger
# Subtracts the larger logarithm first.

def merge(out, lse, out2, lse2):
    most = torch.maximum(lse, lse2)
    one, two = (lse - most).exp(), (lse2 - most).exp()
    return (out * one + out2 * two) / (one + two), most + (one + two).log()


# %% right: softmax_over_blocks
# The shares are a softmax over the two logarithms.

def merge(out, lse, out2, lse2):
    both = torch.stack((lse, lse2))
    one, two = both.softmax(0)
    return one * out + two * out2, both.logsumexp(0)
