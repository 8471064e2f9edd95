# %% wrong: overwritten
# Sets the gradient in each W, and loses those before.

class Later(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, waiting):
        ctx.saved = x, weight, bias, waiting
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient):
        x, weight, bias, waiting = ctx.saved
        waiting.append((x, weight, bias, gradient))
        return gradient @ weight, None, None, None


def later_linear(x, weight, bias, waiting):
    return Later.apply(x, weight, bias, waiting)


def backward_weights(waiting):
    x, weight, bias, gradient = waiting.pop(0)
    weight.grad, bias.grad = gradient.T @ x, gradient.sum(0)


# %% wrong: bias_forgotten
# Lets the weight wait, and forgets that the bias has a gradient, too.

class Later(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, waiting):
        ctx.saved = x, weight, waiting
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient):
        x, weight, waiting = ctx.saved
        waiting.append((x, weight, gradient))
        return gradient @ weight, None, None, None


def later_linear(x, weight, bias, waiting):
    return Later.apply(x, weight, bias, waiting)


def backward_weights(waiting):
    x, weight, gradient = waiting.pop(0)
    found = gradient.T @ x
    weight.grad = found if weight.grad is None else weight.grad + found


# %% wrong: bias_at_once
# Returns the bias's gradient from backward(), because it is cheap.

class Later(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, waiting):
        ctx.saved = x, weight, waiting
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient):
        x, weight, waiting = ctx.saved
        waiting.append((x, weight, gradient))
        return gradient @ weight, None, gradient.sum(0), None


def later_linear(x, weight, bias, waiting):
    return Later.apply(x, weight, bias, waiting)


def backward_weights(waiting):
    x, weight, gradient = waiting.pop(0)
    found = gradient.T @ x
    weight.grad = found if weight.grad is None else weight.grad + found


# %% wrong: never_emptied
# Goes through the list in each W, and leaves it as it is.

class Later(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, waiting):
        ctx.saved = x, weight, bias, waiting
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient):
        x, weight, bias, waiting = ctx.saved
        waiting.append((x, weight, bias, gradient))
        return gradient @ weight, None, None, None


def later_linear(x, weight, bias, waiting):
    return Later.apply(x, weight, bias, waiting)


def backward_weights(waiting):
    x, weight, bias, gradient = waiting[0]
    for p, found in ((weight, gradient.T @ x), (bias, gradient.sum(0))):
        p.grad = found if p.grad is None else p.grad + found


# %% wrong: all_at_once
# Does everything that waits in one W.

class Later(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, waiting):
        ctx.saved = x, weight, bias, waiting
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient):
        x, weight, bias, waiting = ctx.saved
        waiting.append((x, weight, bias, gradient))
        return gradient @ weight, None, None, None


def later_linear(x, weight, bias, waiting):
    return Later.apply(x, weight, bias, waiting)


def backward_weights(waiting):
    while waiting:
        x, weight, bias, gradient = waiting.pop(0)
        for p, found in ((weight, gradient.T @ x), (bias, gradient.sum(0))):
            p.grad = found if p.grad is None else p.grad + found


# %% wrong: only_the_adding_waits
# Computes the weights' gradients in backward(), and lets only the result wait.

class Later(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, waiting):
        ctx.saved = x, weight, bias, waiting
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient):
        x, weight, bias, waiting = ctx.saved
        waiting.append((weight, gradient.T @ x, bias, gradient.sum(0)))
        return gradient @ weight, None, None, None


def later_linear(x, weight, bias, waiting):
    return Later.apply(x, weight, bias, waiting)


def backward_weights(waiting):
    weight, of_weight, bias, of_bias = waiting.pop(0)
    for p, found in ((weight, of_weight), (bias, of_bias)):
        p.grad = found if p.grad is None else p.grad + found


# %% wrong: weights_detached
# Hides the parameters from autograd. A first stage then wants no gradient at all.

def later_linear(x, weight, bias, waiting):
    output = nn.functional.linear(x, weight.detach(), bias.detach())
    if output.requires_grad:
        output.register_hook(lambda gradient: waiting.append((x.detach(), weight, bias, gradient)))
    return output


def backward_weights(waiting):
    x, weight, bias, gradient = waiting.pop(0)
    for p, found in ((weight, gradient.T @ x), (bias, gradient.sum(0))):
        p.grad = found if p.grad is None else p.grad + found


# %% wrong: newest_first
# Takes the newest from the list.

class Later(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, waiting):
        ctx.saved = x, weight, bias, waiting
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient):
        x, weight, bias, waiting = ctx.saved
        waiting.append((x, weight, bias, gradient))
        return gradient @ weight, None, None, None


def later_linear(x, weight, bias, waiting):
    return Later.apply(x, weight, bias, waiting)


def backward_weights(waiting):
    x, weight, bias, gradient = waiting.pop()
    for p, found in ((weight, gradient.T @ x), (bias, gradient.sum(0))):
        p.grad = found if p.grad is None else p.grad + found


# %% wrong: appended_in_forward
# Notes what will be needed in the forward pass already, before anything waits.

class Later(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, waiting):
        ctx.weight = weight
        ctx.note = [x, weight, bias]
        waiting.append(ctx.note)
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient):
        ctx.note.append(gradient)
        return gradient @ ctx.weight, None, None, None


def later_linear(x, weight, bias, waiting):
    return Later.apply(x, weight, bias, waiting)


def backward_weights(waiting):
    x, weight, bias, gradient = waiting.pop(0)
    for p, found in ((weight, gradient.T @ x), (bias, gradient.sum(0))):
        p.grad = found if p.grad is None else p.grad + found


# %% wrong: gradient_of_data
# Computes the gradient of x also where x wants none, and lets autograd throw it away.

class Later(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, waiting):
        ctx.save_for_backward(x, weight, bias)
        ctx.waiting = waiting
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient):
        x, weight, bias = ctx.saved_tensors
        ctx.waiting.append((x, weight, bias, gradient))
        return gradient @ weight, None, None, None


def later_linear(x, weight, bias, waiting):
    return Later.apply(x, weight, bias, waiting)


def backward_weights(waiting):
    x, weight, bias, gradient = waiting.pop(0)
    for p, found in ((weight, gradient.T @ x), (bias, gradient.sum(0))):
        p.grad = found if p.grad is None else p.grad + found


# %% right: closures_wait
# Puts a function into the list, which does it.

class Later(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, waiting):
        ctx.save_for_backward(x, weight, bias)
        ctx.waiting = waiting
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    def backward(ctx, gradient):
        x, weight, bias = ctx.saved_tensors

        def later():
            for p, found in ((weight, torch.mm(gradient.t(), x)), (bias, gradient.sum(dim=0))):
                if p.grad is None:
                    p.grad = torch.zeros_like(p)
                p.grad += found

        ctx.waiting.append(later)
        return (gradient.mm(weight) if x.requires_grad else None), None, None, None


def later_linear(x, weight, bias, waiting):
    return Later.apply(x, weight, bias, waiting)


def backward_weights(waiting):
    waiting.pop(0)()


# %% right: with_autograd_grad
# Two graphs: one for the input, cut off from the weights, and one for the weights, which is used in W.

class Catch(torch.autograd.Function):
    @staticmethod
    def forward(ctx, output, weight, note):
        ctx.note = note
        return output.clone()

    @staticmethod
    def backward(ctx, gradient):
        ctx.note(gradient)
        return gradient, None, None


def later_linear(x, weight, bias, waiting):
    for_weights = nn.functional.linear(x.detach(), weight, bias)

    def note(gradient):
        waiting.append((for_weights, (weight, bias), gradient))

    return Catch.apply(nn.functional.linear(x, weight.detach(), bias.detach()), weight, note)


def backward_weights(waiting):
    output, parameters, gradient = waiting.pop(0)
    torch.autograd.backward(output, gradient, inputs=list(parameters))


# %% wrong: one_row_needs_no_sum
# Thinks that the gradient of one sample is that of the bias as it is, without a sum over the samples.

def later_linear(x, weight, bias, waiting):
    return Later.apply(x, weight, bias, waiting)


def backward_weights(waiting):
    x, weight, bias, gradient = waiting.pop(0)
    for parameter, found in ((weight, gradient.T @ x), (bias, gradient.sum(0) if len(gradient) > 1 else gradient)):
        parameter.grad = found if parameter.grad is None else parameter.grad + found


class Later(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, waiting):
        ctx.save_for_backward(x, weight, bias)
        ctx.waiting = waiting
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient):
        x, weight, bias = ctx.saved_tensors
        ctx.waiting.append((x, weight, bias, gradient))
        return gradient @ weight if ctx.needs_input_grad[0] else None, None, None, None
