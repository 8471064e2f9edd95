"""Lesson 10: working versions of its tasks."""


def cut_step(part0, part1, x, target, loss_fn):
    hidden = part0(x)
    # A copy without its graph. It starts a new graph, so PyTorch stores its gradient.
    received = hidden.detach().to(target.device).requires_grad_()
    loss = loss_fn(part1(received), target)
    loss.backward()
    hidden.backward(received.grad.to(hidden.device))
    return loss


def run_actions(actions, stages, devices, inputs, targets, loss_fn):
    last, kept, sent = len(stages) - 1, {}, {}
    for kind, stage, number in actions:
        if kind == "F":
            # The received tensor starts a new graph and collects the gradient for the previous stage.
            x = sent.pop(("F", stage, number)).requires_grad_() if stage else inputs[number]
            output = stages[stage](x)
            if stage == last:
                output = loss_fn(output, targets[number]) / len(inputs)
            else:
                sent["F", stage + 1, number] = output.detach().to(devices[stage + 1])
            kept[stage, number] = x, output
        else:
            x, output = kept.pop((stage, number))  # frees the graph of this stage and micro-batch
            output.backward(sent.pop(("B", stage, number), None))  # a loss needs no incoming gradient
            if stage:
                sent["B", stage - 1, number] = x.grad.to(devices[stage - 1])
