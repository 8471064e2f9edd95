# %% wrong: graph_not_cut
# Hands the output over as it is: backward of the last stage goes through all of them at once.

def run_actions(actions, stages, devices, inputs, targets, loss_fn):
    made = {}
    for kind, stage, number in actions:
        if kind == "F":
            x = inputs[number] if stage == 0 else made[stage - 1, number].to(devices[stage])
            made[stage, number] = stages[stage](x)
        elif stage == len(stages) - 1:
            (loss_fn(made[stage, number], targets[number]) / len(inputs)).backward()


# %% wrong: no_gradient_at_the_cut
# Detaches, and forgets that what arrives has to collect a gradient.

def run_actions(actions, stages, devices, inputs, targets, loss_fn):
    last, kept, sent = len(stages) - 1, {}, {}
    for kind, stage, number in actions:
        if kind == "F":
            x = sent.pop(("F", stage, number)) if stage else inputs[number]
            output = stages[stage](x)
            if stage == last:
                output = loss_fn(output, targets[number]) / len(inputs)
            else:
                sent["F", stage + 1, number] = output.detach().to(devices[stage + 1])
            kept[stage, number] = x, output
        else:
            x, output = kept.pop((stage, number))
            output.backward(sent.pop(("B", stage, number), None))
            if stage and x.grad is not None:
                sent["B", stage - 1, number] = x.grad.to(devices[stage - 1])


# %% wrong: loss_not_divided
# Adds up the mean losses of the micro-batches.

def run_actions(actions, stages, devices, inputs, targets, loss_fn):
    last, kept, sent = len(stages) - 1, {}, {}
    for kind, stage, number in actions:
        if kind == "F":
            x = sent.pop(("F", stage, number)).requires_grad_() if stage else inputs[number]
            output = stages[stage](x)
            if stage == last:
                output = loss_fn(output, targets[number])
            else:
                sent["F", stage + 1, number] = output.detach().to(devices[stage + 1])
            kept[stage, number] = x, output
        else:
            x, output = kept.pop((stage, number))
            output.backward(sent.pop(("B", stage, number), None))
            if stage:
                sent["B", stage - 1, number] = x.grad.to(devices[stage - 1])


# %% wrong: one_slot_for_each_stage
# Remembers what a stage made last, as if only one micro-batch were in flight.

def run_actions(actions, stages, devices, inputs, targets, loss_fn):
    last, kept, sent = len(stages) - 1, {}, {}
    for kind, stage, number in actions:
        if kind == "F":
            x = sent["F", stage].detach().requires_grad_() if stage else inputs[number]
            output = stages[stage](x)
            if stage == last:
                output = loss_fn(output, targets[number]) / len(inputs)
            else:
                sent["F", stage + 1] = output.detach().to(devices[stage + 1])
            kept[stage] = x, output
        else:
            x, output = kept[stage]
            output.backward(sent.pop(("B", stage), None), retain_graph=True)
            if stage:
                sent["B", stage - 1] = x.grad.to(devices[stage - 1])


# %% wrong: keeps_everything
# Looks things up and never forgets them.

def run_actions(actions, stages, devices, inputs, targets, loss_fn):
    last, kept, sent = len(stages) - 1, {}, {}
    for kind, stage, number in actions:
        if kind == "F":
            x = sent["F", stage, number].requires_grad_() if stage else inputs[number]
            output = stages[stage](x)
            if stage == last:
                output = loss_fn(output, targets[number]) / len(inputs)
            else:
                sent["F", stage + 1, number] = output.detach().to(devices[stage + 1])
            kept[stage, number] = x, output
        else:
            x, output = kept[stage, number]
            output.backward(sent.get(("B", stage, number)))
            if stage:
                sent["B", stage - 1, number] = x.grad.to(devices[stage - 1])


# %% wrong: all_forward_passes_first
# Runs GPipe whatever the actions say: first all F, then all B.

def run_actions(actions, stages, devices, inputs, targets, loss_fn):
    last, kept, sent = len(stages) - 1, {}, {}
    for kind, stage, number in sorted(actions, key=lambda action: action[0] == "B"):
        if kind == "F":
            x = sent.pop(("F", stage, number)).requires_grad_() if stage else inputs[number]
            output = stages[stage](x)
            if stage == last:
                output = loss_fn(output, targets[number]) / len(inputs)
            else:
                sent["F", stage + 1, number] = output.detach().to(devices[stage + 1])
            kept[stage, number] = x, output
        else:
            x, output = kept.pop((stage, number))
            output.backward(sent.pop(("B", stage, number), None))
            if stage:
                sent["B", stage - 1, number] = x.grad.to(devices[stage - 1])


# %% wrong: gradient_of_ones
# Gets rid of the error about scalar outputs by adding up the output: the gradient that arrived is not used.

def run_actions(actions, stages, devices, inputs, targets, loss_fn):
    last, kept, sent = len(stages) - 1, {}, {}
    for kind, stage, number in actions:
        if kind == "F":
            x = sent.pop(("F", stage, number)).requires_grad_() if stage else inputs[number]
            output = stages[stage](x)
            if stage == last:
                output = loss_fn(output, targets[number]) / len(inputs)
            else:
                sent["F", stage + 1, number] = output.detach().to(devices[stage + 1])
            kept[stage, number] = x, output
        else:
            x, output = kept.pop((stage, number))
            output.sum().backward()


# %% right: copied_when_it_is_needed
# Sends nothing ahead: who needs a tensor fetches it, forward and backward.

def run_actions(actions, stages, devices, inputs, targets, loss_fn):
    received, made, gradients = {}, {}, {}
    for kind, stage, number in actions:
        key = (stage, number)
        if kind == "F":
            if stage == 0:
                received[key] = inputs[number]
            else:
                received[key] = made[stage - 1, number].detach().to(devices[stage]).requires_grad_()
            made[key] = stages[stage](received[key])
            if stage == len(stages) - 1:
                made[key] = loss_fn(made[key], targets[number]) / len(inputs)
        else:
            output = made.pop(key)
            if output.dim():
                output.backward(gradients.pop((stage + 1, number)).to(devices[stage]))
            else:
                output.backward()
            gradients[key] = received.pop(key).grad


# %% right: a_class_for_a_step
# Two methods, F and B, found by their name; gradients by torch.autograd.backward.

class _Step:
    def __init__(self, stages, devices, inputs, targets, loss_fn):
        self.stages, self.devices, self.loss_fn = stages, devices, loss_fn
        self.targets, self.count = targets, len(inputs)
        self.waiting = {(0, number): rows for number, rows in enumerate(inputs)}
        self.graphs, self.gradients = {}, {}

    def F(self, stage, number):
        x = self.waiting.pop((stage, number))
        if stage > 0:
            x = x.clone().requires_grad_(True)
        output = self.stages[stage](x)
        if stage + 1 < len(self.stages):
            self.waiting[stage + 1, number] = output.data.to(self.devices[stage + 1])
        else:
            output = self.loss_fn(output, self.targets[number]) / self.count
        self.graphs[stage, number] = (x, output)

    def B(self, stage, number):
        x, output = self.graphs.pop((stage, number))
        gradient = self.gradients.pop((stage, number), None)
        torch.autograd.backward([output], [gradient])
        if stage > 0:
            self.gradients[stage - 1, number] = x.grad.to(self.devices[stage - 1])


def run_actions(actions, stages, devices, inputs, targets, loss_fn):
    step = _Step(stages, devices, inputs, targets, loss_fn)
    for kind, stage, number in actions:
        getattr(step, kind)(stage, number)
