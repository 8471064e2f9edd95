# %% wrong: record_without_a_queue
# Thinks that record() marks the queue of the device that is at work: it marks that of the current device.

def by_events(model, parts, x):
    pairs, handles = [], []
    for part in parts:
        gpu = torch.get_device_module(next(part.parameters()).device)
        start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
        pairs.append((start, end))

        def before(module, inputs, start=start):
            start.record()

        def after(module, inputs, output, end=end):
            end.record()

        handles += [part.register_forward_pre_hook(before), part.register_forward_hook(after)]
    model(x)
    for handle in handles:
        handle.remove()
    for _, end in pairs:
        end.synchronize()
    return [start.elapsed_time(end) / 1000 for start, end in pairs]


# %% wrong: late_binding
# Makes hooks in a loop that all use the last pair of events.

def by_events(model, parts, x):
    pairs, handles = [], []
    for part in parts:
        device = next(part.parameters()).device
        gpu = torch.get_device_module(device)
        start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
        queue = gpu.current_stream(device)
        pairs.append((start, end))

        def before(module, inputs):
            start.record(queue)

        def after(module, inputs, output):
            end.record(queue)

        handles += [part.register_forward_pre_hook(before), part.register_forward_hook(after)]
    model(x)
    for handle in handles:
        handle.remove()
    for device in {next(part.parameters()).device for part in parts}:
        synchronize(device)
    return [start.elapsed_time(end) / 1000 for start, end in pairs]


# %% wrong: milliseconds
# Returns milliseconds.

def by_events(model, parts, x):
    pairs, handles = [], []
    for part in parts:
        device = next(part.parameters()).device
        gpu = torch.get_device_module(device)
        start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
        queue = gpu.current_stream(device)
        pairs.append((start, end))

        def before(module, inputs, start=start, queue=queue):
            start.record(queue)

        def after(module, inputs, output, end=end, queue=queue):
            end.record(queue)

        handles += [part.register_forward_pre_hook(before), part.register_forward_hook(after)]
    model(x)
    for handle in handles:
        handle.remove()
    for _, end in pairs:
        end.synchronize()
    return [start.elapsed_time(end) for start, end in pairs]


# %% wrong: hooks_stay
# Leaves the hooks in the model.

def by_events(model, parts, x):
    pairs = []
    for part in parts:
        device = next(part.parameters()).device
        gpu = torch.get_device_module(device)
        start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
        queue = gpu.current_stream(device)
        pairs.append((start, end))

        def before(module, inputs, start=start, queue=queue):
            start.record(queue)

        def after(module, inputs, output, end=end, queue=queue):
            end.record(queue)

        part.register_forward_pre_hook(before)
        part.register_forward_hook(after)
    model(x)
    for _, end in pairs:
        end.synchronize()
    return [start.elapsed_time(end) / 1000 for start, end in pairs]


# %% wrong: not_waited
# Reads the times before the devices have reached the marks.

def by_events(model, parts, x):
    pairs, handles = [], []
    for part in parts:
        device = next(part.parameters()).device
        gpu = torch.get_device_module(device)
        start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
        queue = gpu.current_stream(device)
        pairs.append((start, end))

        def before(module, inputs, start=start, queue=queue):
            start.record(queue)

        def after(module, inputs, output, end=end, queue=queue):
            end.record(queue)

        handles += [part.register_forward_pre_hook(before), part.register_forward_hook(after)]
    model(x)
    for handle in handles:
        handle.remove()
    return [start.elapsed_time(end) / 1000 for start, end in pairs]


# %% wrong: returns_from_the_hook
# A lambda that returns the event: what a pre-hook returns takes the place of the input.

def by_events(model, parts, x):
    pairs, handles = [], []
    for part in parts:
        device = next(part.parameters()).device
        gpu = torch.get_device_module(device)
        start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
        queue = gpu.current_stream(device)
        pairs.append((start, end))
        handles.append(part.register_forward_pre_hook(lambda *_, s=start, q=queue: q.record_event(s)))
        handles.append(part.register_forward_hook(lambda *_, e=end, q=queue: q.record_event(e)))
    model(x)
    for handle in handles:
        handle.remove()
    for _, end in pairs:
        end.synchronize()
    return [start.elapsed_time(end) / 1000 for start, end in pairs]


# %% wrong: one_run_for_each
# Runs the model once for each part.

def by_events(model, parts, x):
    times = []
    for part in parts:
        device = next(part.parameters()).device
        gpu = torch.get_device_module(device)
        start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
        queue = gpu.current_stream(device)

        def before(module, inputs):
            start.record(queue)

        def after(module, inputs, output):
            end.record(queue)

        first, second = part.register_forward_pre_hook(before), part.register_forward_hook(after)
        model(x)
        first.remove()
        second.remove()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1000)
    return times


# %% wrong: around_the_model
# Two events on each device around the whole model: what the part waits for is in its time, too.

def by_events(model, parts, x):
    pairs = []
    for part in parts:
        device = next(part.parameters()).device
        gpu = torch.get_device_module(device)
        start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
        start.record(gpu.current_stream(device))
        pairs.append((gpu, device, start, end))
    model(x)
    for gpu, device, start, end in pairs:
        end.record(gpu.current_stream(device))
    for gpu, device, start, end in pairs:
        end.synchronize()
    return [start.elapsed_time(end) / 1000 for _, _, start, end in pairs]


# %% wrong: without_timing
# Makes events that keep no time.

def by_events(model, parts, x):
    pairs, handles = [], []
    for part in parts:
        device = next(part.parameters()).device
        gpu = torch.get_device_module(device)
        start, end = gpu.Event(), gpu.Event()
        queue = gpu.current_stream(device)
        pairs.append((start, end))

        def before(module, inputs, start=start, queue=queue):
            start.record(queue)

        def after(module, inputs, output, end=end, queue=queue):
            end.record(queue)

        handles += [part.register_forward_pre_hook(before), part.register_forward_hook(after)]
    model(x)
    for handle in handles:
        handle.remove()
    for _, end in pairs:
        end.synchronize()
    return [start.elapsed_time(end) / 1000 for start, end in pairs]


# %% wrong: order_of_the_run
# Returns the times in the order in which the parts ran.

def by_events(model, parts, x):
    found, handles = [], []

    def before(module, inputs):
        device = next(module.parameters()).device
        gpu = torch.get_device_module(device)
        pair = [gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)]
        pair[0].record(gpu.current_stream(device))
        found.append(pair)

    def after(module, inputs, output):
        device = next(module.parameters()).device
        found[-1][1].record(torch.get_device_module(device).current_stream(device))

    for part in parts:
        handles += [part.register_forward_pre_hook(before), part.register_forward_hook(after)]
    model(x)
    for handle in handles:
        handle.remove()
    for _, end in found:
        end.synchronize()
    return [start.elapsed_time(end) / 1000 for start, end in found]


# %% wrong: stopwatch_in_the_hooks
# Uses the timer of exercise 1 in the hooks, with waiting, in place of events.

def by_events(model, parts, x):
    begun, seconds, handles = {}, {}, []

    def begin(part, inputs):
        for gpu in gpus:
            synchronize(gpu)
        begun[part] = clock()

    def end(part, inputs, output):
        for gpu in gpus:
            synchronize(gpu)
        seconds[part] = clock() - begun[part]

    for part in parts:
        handles += [part.register_forward_pre_hook(begin), part.register_forward_hook(end)]
    model(x)
    for handle in handles:
        handle.remove()
    return [seconds[part] for part in parts]


# %% wrong: waits_before_each_part
# Waits in the pre-hook until the part's device has nothing left, so that the first event is exact.

def by_events(model, parts, x):
    def watched(part):
        device = next(part.parameters()).device
        gpu = torch.get_device_module(device)
        queue = gpu.current_stream(device)
        start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)

        def before(*_):
            queue.synchronize()
            start.record(queue)

        def behind(*_):
            end.record(queue)

        return start, end, part.register_forward_pre_hook(before), part.register_forward_hook(behind)

    found = [watched(part) for part in parts]
    model(x)
    for _, end, *handles in found:
        end.synchronize()
        for handle in handles:
            handle.remove()
    return [start.elapsed_time(end) / 1000 for start, end, *_ in found]


# %% right: stream_records
# stream.record_event makes the events; a class for a part.

class Watch:
    def __init__(self, part):
        self.device = next(part.parameters()).device
        self.gpu = torch.get_device_module(self.device)
        self.start, self.end = self.gpu.Event(enable_timing=True), self.gpu.Event(enable_timing=True)
        self.handles = [part.register_forward_pre_hook(self.before), part.register_forward_hook(self.after)]

    def before(self, module, inputs):
        self.gpu.current_stream(self.device).record_event(self.start)

    def after(self, module, inputs, output):
        self.gpu.current_stream(self.device).record_event(self.end)

    def seconds(self):
        for handle in self.handles:
            handle.remove()
        self.end.synchronize()
        return self.start.elapsed_time(self.end) * 1e-3


def by_events(model, parts, x):
    watches = [Watch(part) for part in parts]
    model(x)
    return [watch.seconds() for watch in watches]


# %% right: with_the_device
# record() without a queue, with the part's device made the current one.

def by_events(model, parts, x):
    events = {part: [] for part in parts}

    def mark(module, *_):
        device = next(module.parameters()).device
        gpu = torch.get_device_module(device)
        event = gpu.Event(enable_timing=True)
        with gpu.device(device):
            event.record()
        events[module].append(event)

    handles = [part.register_forward_pre_hook(mark) for part in parts]
    handles += [part.register_forward_hook(mark) for part in parts]
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    for part in parts:
        synchronize(next(part.parameters()).device)
    return [events[part][0].elapsed_time(events[part][1]) / 1000 for part in parts]


# %% right: defaults_and_finally
# Default arguments keep each pair; the hooks are removed in a finally block; waits for the devices first.

def by_events(model, parts, x):
    pairs, handles = [], []
    for part in parts:
        device = next(part.parameters()).device
        synchronize(device)
        gpu = torch.get_device_module(device)
        start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)

        def before(module, inputs, start=start, queue=gpu.current_stream(device)):
            start.record(queue)

        def after(module, inputs, output, end=end, queue=gpu.current_stream(device)):
            queue.record_event(end)

        handles += [part.register_forward_pre_hook(before), part.register_forward_hook(after)]
        pairs.append((start, end, device))
    try:
        output = model(x)
        print("output on", output.device)
    finally:
        for handle in handles:
            handle.remove()
    for _, _, device in pairs:
        synchronize(device)
    return tuple(start.elapsed_time(end) / 1000 for start, end, _ in pairs)


# %% wrong: one_pair_of_events_a_device
# Has one pair of events for each device, so that two parts on one device share it.

def by_events(model, parts, x):
    from functools import partial

    pairs, handles, events = [], [], {}
    for part in parts:
        device = next(part.parameters()).device
        gpu = torch.get_device_module(device)
        if device not in events:
            events[device] = tuple(gpu.Event(enable_timing=True) for _ in range(2))
        start, end = events[device]
        pairs.append((start, end))

        def mark(*_, event, queue):
            event.record(queue)  # returns nothing: what a hook returns would replace the input or the output

        queue = gpu.current_stream(device)
        handles.append(part.register_forward_pre_hook(partial(mark, event=start, queue=queue)))
        handles.append(part.register_forward_hook(partial(mark, event=end, queue=queue)))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    for _, end in pairs:
        end.synchronize()
    return [start.elapsed_time(end) / 1000 for start, end in pairs]


# %% wrong: clears_all_hooks
# Clears the dicts of hooks, so that those that others have put there are gone, too.

def by_events(model, parts, x):
    def stamp(event, device):
        def hook(*_):
            torch.get_device_module(device).current_stream(device).record_event(event)

        return hook

    pairs = []
    for part in parts:
        device = next(part.parameters()).device
        gpu = torch.get_device_module(device)
        start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
        part.register_forward_pre_hook(stamp(start, device))
        part.register_forward_hook(stamp(end, device))
        pairs.append((start, end))
    try:
        model(x)
    finally:
        for part in parts:
            part._forward_pre_hooks.clear()
            part._forward_hooks.clear()
    for _, end in pairs:
        end.synchronize()
    return [start.elapsed_time(end) / 1000 for start, end in pairs]


# %% wrong: device_of_the_input
# Takes the device from the input of the part, not from its parameters. A part may move its own input.

def by_events(model, parts, x):
    pairs, handles = [], []

    def watch(part):
        gpu = torch.get_device_module(next(part.parameters()).device)
        start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)

        def before(module, args):
            gpu.current_stream(args[0].device).record_event(start)

        def behind(module, args, output):
            gpu.current_stream(args[0].device).record_event(end)

        handles.append(part.register_forward_pre_hook(before))
        handles.append(part.register_forward_hook(behind))
        pairs.append((start, end))

    for part in parts:
        watch(part)
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    for _, end in pairs:
        end.synchronize()
    return [start.elapsed_time(end) / 1000 for start, end in pairs]
