# %% wrong: waits_for_all_that_is_queued
# Lets its streams wait for everything that is queued on the streams that compute: whole backward passes.

from contextlib import ExitStack
from functools import partial


class OverlappedMean:
    def __init__(self, models, buckets):
        self.gpu = torch.get_device_module(next(models[0].parameters()).device)
        self.copies = [list(model.parameters()) for model in models]
        self.devices = [own[0].device for own in self.copies]
        self.streams = [self.gpu.Stream(device) for device in self.devices]
        self.buckets = buckets
        self.begin()
        for rank, own in enumerate(self.copies):
            for number, bucket in enumerate(buckets):
                for index in bucket:
                    own[index].register_post_accumulate_grad_hook(partial(self.came, rank, number))

    def begin(self):
        self.missing = {(r, n): len(b) for r in range(len(self.copies)) for n, b in enumerate(self.buckets)}
        self.packed = [{} for _ in self.buckets]

    def came(self, rank, number, parameter):
        self.missing[rank, number] -= 1
        if self.missing[rank, number] == 0:
            own, device = self.copies[rank], self.devices[rank]
            flat = torch.cat([own[index].grad.flatten() for index in self.buckets[number]])
            self.packed[number][rank] = flat, self.gpu.current_stream(device).record_event()
            if len(self.packed[number]) == len(self.copies):
                self.average(number)

    def average(self, number):
        with ExitStack() as stack:
            for rank, stream in enumerate(self.streams):
                stream.wait_stream(self.gpu.current_stream(self.devices[rank]))
                stack.enter_context(self.gpu.stream(stream))
            flats = [self.packed[number][rank][0] for rank in range(len(self.copies))]
            total = sum(flat.to(self.devices[-1], non_blocking=True) for flat in flats) / len(flats)
            sizes = [self.copies[0][index].numel() for index in self.buckets[number]]
            for own, device in zip(self.copies, self.devices):
                pieces = total.to(device, non_blocking=True).split(sizes)
                for index, piece in zip(self.buckets[number], pieces):
                    own[index].grad.copy_(piece.view_as(own[index]))

    def finish(self):
        for device, stream in zip(self.devices, self.streams):
            self.gpu.current_stream(device).wait_stream(stream)
        self.begin()


def overlapped_mean(models, buckets):
    return OverlappedMean(models, buckets).finish


# %% wrong: nobody_waits_at_the_end
# Lets the optimizer read the gradients while other streams still write them.

from contextlib import ExitStack
from functools import partial


class OverlappedMean:
    def __init__(self, models, buckets):
        self.gpu = torch.get_device_module(next(models[0].parameters()).device)
        self.copies = [list(model.parameters()) for model in models]
        self.devices = [own[0].device for own in self.copies]
        self.streams = [self.gpu.Stream(device) for device in self.devices]
        self.buckets = buckets
        self.begin()
        for rank, own in enumerate(self.copies):
            for number, bucket in enumerate(buckets):
                for index in bucket:
                    own[index].register_post_accumulate_grad_hook(partial(self.came, rank, number))

    def begin(self):
        self.missing = {(r, n): len(b) for r in range(len(self.copies)) for n, b in enumerate(self.buckets)}
        self.packed = [{} for _ in self.buckets]

    def came(self, rank, number, parameter):
        self.missing[rank, number] -= 1
        if self.missing[rank, number] == 0:
            own, device = self.copies[rank], self.devices[rank]
            flat = torch.cat([own[index].grad.flatten() for index in self.buckets[number]])
            self.packed[number][rank] = flat, self.gpu.current_stream(device).record_event()
            if len(self.packed[number]) == len(self.copies):
                self.average(number)

    def average(self, number):
        with ExitStack() as stack:
            for rank, stream in enumerate(self.streams):
                stream.wait_event(self.packed[number][rank][1])
                stack.enter_context(self.gpu.stream(stream))
            flats = [self.packed[number][rank][0] for rank in range(len(self.copies))]
            total = sum(flat.to(self.devices[-1], non_blocking=True) for flat in flats) / len(flats)
            sizes = [self.copies[0][index].numel() for index in self.buckets[number]]
            for own, device in zip(self.copies, self.devices):
                pieces = total.to(device, non_blocking=True).split(sizes)
                for index, piece in zip(self.buckets[number], pieces):
                    own[index].grad.copy_(piece.view_as(own[index]))

    def finish(self):
        self.begin()


def overlapped_mean(models, buckets):
    return OverlappedMean(models, buckets).finish


# %% wrong: default_streams
# Copies and adds on the streams that compute.

from contextlib import ExitStack
from functools import partial


class OverlappedMean:
    def __init__(self, models, buckets):
        self.gpu = torch.get_device_module(next(models[0].parameters()).device)
        self.copies = [list(model.parameters()) for model in models]
        self.devices = [own[0].device for own in self.copies]
        self.streams = [self.gpu.current_stream(device) for device in self.devices]
        self.buckets = buckets
        self.begin()
        for rank, own in enumerate(self.copies):
            for number, bucket in enumerate(buckets):
                for index in bucket:
                    own[index].register_post_accumulate_grad_hook(partial(self.came, rank, number))

    def begin(self):
        self.missing = {(r, n): len(b) for r in range(len(self.copies)) for n, b in enumerate(self.buckets)}
        self.packed = [{} for _ in self.buckets]

    def came(self, rank, number, parameter):
        self.missing[rank, number] -= 1
        if self.missing[rank, number] == 0:
            own, device = self.copies[rank], self.devices[rank]
            flat = torch.cat([own[index].grad.flatten() for index in self.buckets[number]])
            self.packed[number][rank] = flat, self.gpu.current_stream(device).record_event()
            if len(self.packed[number]) == len(self.copies):
                self.average(number)

    def average(self, number):
        with ExitStack() as stack:
            for rank, stream in enumerate(self.streams):
                stream.wait_event(self.packed[number][rank][1])
                stack.enter_context(self.gpu.stream(stream))
            flats = [self.packed[number][rank][0] for rank in range(len(self.copies))]
            total = sum(flat.to(self.devices[-1], non_blocking=True) for flat in flats) / len(flats)
            sizes = [self.copies[0][index].numel() for index in self.buckets[number]]
            for own, device in zip(self.copies, self.devices):
                pieces = total.to(device, non_blocking=True).split(sizes)
                for index, piece in zip(self.buckets[number], pieces):
                    own[index].grad.copy_(piece.view_as(own[index]))

    def finish(self):
        for device, stream in zip(self.devices, self.streams):
            self.gpu.current_stream(device).wait_stream(stream)
        self.begin()


def overlapped_mean(models, buckets):
    return OverlappedMean(models, buckets).finish


# %% wrong: one_stream_in_all
# Makes one stream, on the first device. At the other end the copies are on the default streams.

from contextlib import ExitStack
from functools import partial


class OverlappedMean:
    def __init__(self, models, buckets):
        self.gpu = torch.get_device_module(next(models[0].parameters()).device)
        self.copies = [list(model.parameters()) for model in models]
        self.devices = [own[0].device for own in self.copies]
        self.streams = [self.gpu.Stream(self.devices[0])] + [self.gpu.current_stream(d) for d in self.devices[1:]]
        self.buckets = buckets
        self.begin()
        for rank, own in enumerate(self.copies):
            for number, bucket in enumerate(buckets):
                for index in bucket:
                    own[index].register_post_accumulate_grad_hook(partial(self.came, rank, number))

    def begin(self):
        self.missing = {(r, n): len(b) for r in range(len(self.copies)) for n, b in enumerate(self.buckets)}
        self.packed = [{} for _ in self.buckets]

    def came(self, rank, number, parameter):
        self.missing[rank, number] -= 1
        if self.missing[rank, number] == 0:
            own, device = self.copies[rank], self.devices[rank]
            flat = torch.cat([own[index].grad.flatten() for index in self.buckets[number]])
            self.packed[number][rank] = flat, self.gpu.current_stream(device).record_event()
            if len(self.packed[number]) == len(self.copies):
                self.average(number)

    def average(self, number):
        with ExitStack() as stack:
            for rank, stream in enumerate(self.streams):
                stream.wait_event(self.packed[number][rank][1])
                stack.enter_context(self.gpu.stream(stream))
            flats = [self.packed[number][rank][0] for rank in range(len(self.copies))]
            total = sum(flat.to(self.devices[-1], non_blocking=True) for flat in flats) / len(flats)
            sizes = [self.copies[0][index].numel() for index in self.buckets[number]]
            for own, device in zip(self.copies, self.devices):
                pieces = total.to(device, non_blocking=True).split(sizes)
                for index, piece in zip(self.buckets[number], pieces):
                    own[index].grad.copy_(piece.view_as(own[index]))

    def finish(self):
        for device, stream in zip(self.devices, self.streams):
            self.gpu.current_stream(device).wait_stream(stream)
        self.begin()


def overlapped_mean(models, buckets):
    return OverlappedMean(models, buckets).finish


# %% wrong: all_in_finish
# Averages after the backward passes, when nothing is left to hide behind.

from contextlib import ExitStack
from functools import partial


class OverlappedMean:
    def __init__(self, models, buckets):
        self.gpu = torch.get_device_module(next(models[0].parameters()).device)
        self.copies = [list(model.parameters()) for model in models]
        self.devices = [own[0].device for own in self.copies]
        self.streams = [self.gpu.Stream(device) for device in self.devices]
        self.buckets = buckets
        self.begin()
        for rank, own in enumerate(self.copies):
            for number, bucket in enumerate(buckets):
                for index in bucket:
                    own[index].register_post_accumulate_grad_hook(partial(self.came, rank, number))

    def begin(self):
        self.missing = {(r, n): len(b) for r in range(len(self.copies)) for n, b in enumerate(self.buckets)}
        self.packed = [{} for _ in self.buckets]

    def came(self, rank, number, parameter):
        self.missing[rank, number] -= 1
        if self.missing[rank, number] == 0:
            own, device = self.copies[rank], self.devices[rank]
            flat = torch.cat([own[index].grad.flatten() for index in self.buckets[number]])
            self.packed[number][rank] = flat, self.gpu.current_stream(device).record_event()

    def average(self, number):
        with ExitStack() as stack:
            for rank, stream in enumerate(self.streams):
                stream.wait_stream(self.gpu.current_stream(self.devices[rank]))
                stack.enter_context(self.gpu.stream(stream))
            flats = [self.packed[number][rank][0] for rank in range(len(self.copies))]
            total = sum(flat.to(self.devices[-1], non_blocking=True) for flat in flats) / len(flats)
            sizes = [self.copies[0][index].numel() for index in self.buckets[number]]
            for own, device in zip(self.copies, self.devices):
                pieces = total.to(device, non_blocking=True).split(sizes)
                for index, piece in zip(self.buckets[number], pieces):
                    own[index].grad.copy_(piece.view_as(own[index]))

    def finish(self):
        for number in range(len(self.buckets)):
            self.average(number)
        for device, stream in zip(self.devices, self.streams):
            self.gpu.current_stream(device).wait_stream(stream)
        self.begin()


def overlapped_mean(models, buckets):
    return OverlappedMean(models, buckets).finish


# %% wrong: first_copy_begins
# Averages a bucket when the first replica has it, and takes the others' gradients as they are.

from contextlib import ExitStack
from functools import partial


class OverlappedMean:
    def __init__(self, models, buckets):
        self.copies = [list(model.parameters()) for model in models]
        self.gpu = torch.get_device_module(self.copies[0][0].device)
        self.streams = [self.gpu.Stream(own[0].device) for own in self.copies]
        self.buckets, self.seen = buckets, set()
        for number, bucket in enumerate(buckets):
            for index in bucket:
                self.copies[0][index].register_post_accumulate_grad_hook(partial(self.came, number, index))

    def came(self, number, index, parameter):
        self.seen.add(index)
        if all(each in self.seen for each in self.buckets[number]):
            self.average(number)

    def average(self, number):
        bucket = self.buckets[number]
        with ExitStack() as stack:
            for stream, own in zip(self.streams, self.copies):
                stream.wait_stream(self.gpu.current_stream(own[0].device))
                stack.enter_context(self.gpu.stream(stream))
            flats = [
                torch.cat([(own[i].grad if own[i].grad is not None else torch.zeros_like(own[i])).flatten() for i in bucket])
                for own in self.copies
            ]
            mean = sum(flat.to(flats[0].device) for flat in flats) / len(flats)
            for own in self.copies:
                pieces = mean.to(own[0].device).split([own[i].numel() for i in bucket])
                for i, piece in zip(bucket, pieces):
                    own[i].grad = piece.view_as(own[i]).clone()

    def finish(self):
        for stream, own in zip(self.streams, self.copies):
            self.gpu.current_stream(own[0].device).wait_stream(stream)
        self.seen.clear()


def overlapped_mean(models, buckets):
    return OverlappedMean(models, buckets).finish


# %% wrong: only_the_first_step
# Counts the gradients once, and never starts again at 0.

from contextlib import ExitStack
from functools import partial


class OverlappedMean:
    def __init__(self, models, buckets):
        self.gpu = torch.get_device_module(next(models[0].parameters()).device)
        self.copies = [list(model.parameters()) for model in models]
        self.devices = [own[0].device for own in self.copies]
        self.streams = [self.gpu.Stream(device) for device in self.devices]
        self.buckets = buckets
        self.begin()
        for rank, own in enumerate(self.copies):
            for number, bucket in enumerate(buckets):
                for index in bucket:
                    own[index].register_post_accumulate_grad_hook(partial(self.came, rank, number))

    def begin(self):
        self.missing = {(r, n): len(b) for r in range(len(self.copies)) for n, b in enumerate(self.buckets)}
        self.packed = [{} for _ in self.buckets]

    def came(self, rank, number, parameter):
        self.missing[rank, number] -= 1
        if self.missing[rank, number] == 0:
            own, device = self.copies[rank], self.devices[rank]
            flat = torch.cat([own[index].grad.flatten() for index in self.buckets[number]])
            self.packed[number][rank] = flat, self.gpu.current_stream(device).record_event()
            if len(self.packed[number]) == len(self.copies):
                self.average(number)

    def average(self, number):
        with ExitStack() as stack:
            for rank, stream in enumerate(self.streams):
                stream.wait_event(self.packed[number][rank][1])
                stack.enter_context(self.gpu.stream(stream))
            flats = [self.packed[number][rank][0] for rank in range(len(self.copies))]
            total = sum(flat.to(self.devices[-1], non_blocking=True) for flat in flats) / len(flats)
            sizes = [self.copies[0][index].numel() for index in self.buckets[number]]
            for own, device in zip(self.copies, self.devices):
                pieces = total.to(device, non_blocking=True).split(sizes)
                for index, piece in zip(self.buckets[number], pieces):
                    own[index].grad.copy_(piece.view_as(own[index]))

    def finish(self):
        for device, stream in zip(self.devices, self.streams):
            self.gpu.current_stream(device).wait_stream(stream)


def overlapped_mean(models, buckets):
    return OverlappedMean(models, buckets).finish


# %% wrong: hooks_each_step
# Registers the hooks again at the end of each step, and leaves the old ones where they are.

from contextlib import ExitStack
from functools import partial


class OverlappedMean:
    def __init__(self, models, buckets):
        self.gpu = torch.get_device_module(next(models[0].parameters()).device)
        self.copies = [list(model.parameters()) for model in models]
        self.devices = [own[0].device for own in self.copies]
        self.streams = [self.gpu.Stream(device) for device in self.devices]
        self.buckets = buckets
        self.begin()
        self.listen()

    def listen(self):
        for rank, own in enumerate(self.copies):
            for number, bucket in enumerate(self.buckets):
                for index in bucket:
                    own[index].register_post_accumulate_grad_hook(partial(self.came, rank, number))

    def begin(self):
        self.missing = {(r, n): len(b) for r in range(len(self.copies)) for n, b in enumerate(self.buckets)}
        self.packed = [{} for _ in self.buckets]

    def came(self, rank, number, parameter):
        self.missing[rank, number] -= 1
        if self.missing[rank, number] == 0:
            own, device = self.copies[rank], self.devices[rank]
            flat = torch.cat([own[index].grad.flatten() for index in self.buckets[number]])
            self.packed[number][rank] = flat, self.gpu.current_stream(device).record_event()
            if len(self.packed[number]) == len(self.copies):
                self.average(number)

    def average(self, number):
        with ExitStack() as stack:
            for rank, stream in enumerate(self.streams):
                stream.wait_event(self.packed[number][rank][1])
                stack.enter_context(self.gpu.stream(stream))
            flats = [self.packed[number][rank][0] for rank in range(len(self.copies))]
            total = sum(flat.to(self.devices[-1], non_blocking=True) for flat in flats) / len(flats)
            sizes = [self.copies[0][index].numel() for index in self.buckets[number]]
            for own, device in zip(self.copies, self.devices):
                pieces = total.to(device, non_blocking=True).split(sizes)
                for index, piece in zip(self.buckets[number], pieces):
                    own[index].grad.copy_(piece.view_as(own[index]))

    def finish(self):
        for device, stream in zip(self.devices, self.streams):
            self.gpu.current_stream(device).wait_stream(stream)
        self.begin()
        self.listen()


def overlapped_mean(models, buckets):
    return OverlappedMean(models, buckets).finish


# %% wrong: summed
# Adds up, and does not divide.

from contextlib import ExitStack
from functools import partial


class OverlappedMean:
    def __init__(self, models, buckets):
        self.gpu = torch.get_device_module(next(models[0].parameters()).device)
        self.copies = [list(model.parameters()) for model in models]
        self.devices = [own[0].device for own in self.copies]
        self.streams = [self.gpu.Stream(device) for device in self.devices]
        self.buckets = buckets
        self.begin()
        for rank, own in enumerate(self.copies):
            for number, bucket in enumerate(buckets):
                for index in bucket:
                    own[index].register_post_accumulate_grad_hook(partial(self.came, rank, number))

    def begin(self):
        self.missing = {(r, n): len(b) for r in range(len(self.copies)) for n, b in enumerate(self.buckets)}
        self.packed = [{} for _ in self.buckets]

    def came(self, rank, number, parameter):
        self.missing[rank, number] -= 1
        if self.missing[rank, number] == 0:
            own, device = self.copies[rank], self.devices[rank]
            flat = torch.cat([own[index].grad.flatten() for index in self.buckets[number]])
            self.packed[number][rank] = flat, self.gpu.current_stream(device).record_event()
            if len(self.packed[number]) == len(self.copies):
                self.average(number)

    def average(self, number):
        with ExitStack() as stack:
            for rank, stream in enumerate(self.streams):
                stream.wait_event(self.packed[number][rank][1])
                stack.enter_context(self.gpu.stream(stream))
            flats = [self.packed[number][rank][0] for rank in range(len(self.copies))]
            total = sum(flat.to(self.devices[-1], non_blocking=True) for flat in flats)
            sizes = [self.copies[0][index].numel() for index in self.buckets[number]]
            for own, device in zip(self.copies, self.devices):
                pieces = total.to(device, non_blocking=True).split(sizes)
                for index, piece in zip(self.buckets[number], pieces):
                    own[index].grad.copy_(piece.view_as(own[index]))

    def finish(self):
        for device, stream in zip(self.devices, self.streams):
            self.gpu.current_stream(device).wait_stream(stream)
        self.begin()


def overlapped_mean(models, buckets):
    return OverlappedMean(models, buckets).finish


# %% wrong: added_to_what_is_there
# Adds the mean to the gradient that is there.

from contextlib import ExitStack
from functools import partial


class OverlappedMean:
    def __init__(self, models, buckets):
        self.gpu = torch.get_device_module(next(models[0].parameters()).device)
        self.copies = [list(model.parameters()) for model in models]
        self.devices = [own[0].device for own in self.copies]
        self.streams = [self.gpu.Stream(device) for device in self.devices]
        self.buckets = buckets
        self.begin()
        for rank, own in enumerate(self.copies):
            for number, bucket in enumerate(buckets):
                for index in bucket:
                    own[index].register_post_accumulate_grad_hook(partial(self.came, rank, number))

    def begin(self):
        self.missing = {(r, n): len(b) for r in range(len(self.copies)) for n, b in enumerate(self.buckets)}
        self.packed = [{} for _ in self.buckets]

    def came(self, rank, number, parameter):
        self.missing[rank, number] -= 1
        if self.missing[rank, number] == 0:
            own, device = self.copies[rank], self.devices[rank]
            flat = torch.cat([own[index].grad.flatten() for index in self.buckets[number]])
            self.packed[number][rank] = flat, self.gpu.current_stream(device).record_event()
            if len(self.packed[number]) == len(self.copies):
                self.average(number)

    def average(self, number):
        with ExitStack() as stack:
            for rank, stream in enumerate(self.streams):
                stream.wait_event(self.packed[number][rank][1])
                stack.enter_context(self.gpu.stream(stream))
            flats = [self.packed[number][rank][0] for rank in range(len(self.copies))]
            total = sum(flat.to(self.devices[-1], non_blocking=True) for flat in flats) / len(flats)
            sizes = [self.copies[0][index].numel() for index in self.buckets[number]]
            for own, device in zip(self.copies, self.devices):
                pieces = total.to(device, non_blocking=True).split(sizes)
                for index, piece in zip(self.buckets[number], pieces):
                    own[index].grad.add_(piece.view_as(own[index]))

    def finish(self):
        for device, stream in zip(self.devices, self.streams):
            self.gpu.current_stream(device).wait_stream(stream)
        self.begin()


def overlapped_mean(models, buckets):
    return OverlappedMean(models, buckets).finish


# %% wrong: first_copy_only
# Leaves the mean on one replica.

from contextlib import ExitStack
from functools import partial


class OverlappedMean:
    def __init__(self, models, buckets):
        self.gpu = torch.get_device_module(next(models[0].parameters()).device)
        self.copies = [list(model.parameters()) for model in models]
        self.devices = [own[0].device for own in self.copies]
        self.streams = [self.gpu.Stream(device) for device in self.devices]
        self.buckets = buckets
        self.begin()
        for rank, own in enumerate(self.copies):
            for number, bucket in enumerate(buckets):
                for index in bucket:
                    own[index].register_post_accumulate_grad_hook(partial(self.came, rank, number))

    def begin(self):
        self.missing = {(r, n): len(b) for r in range(len(self.copies)) for n, b in enumerate(self.buckets)}
        self.packed = [{} for _ in self.buckets]

    def came(self, rank, number, parameter):
        self.missing[rank, number] -= 1
        if self.missing[rank, number] == 0:
            own, device = self.copies[rank], self.devices[rank]
            flat = torch.cat([own[index].grad.flatten() for index in self.buckets[number]])
            self.packed[number][rank] = flat, self.gpu.current_stream(device).record_event()
            if len(self.packed[number]) == len(self.copies):
                self.average(number)

    def average(self, number):
        with ExitStack() as stack:
            for rank, stream in enumerate(self.streams):
                stream.wait_event(self.packed[number][rank][1])
                stack.enter_context(self.gpu.stream(stream))
            flats = [self.packed[number][rank][0] for rank in range(len(self.copies))]
            total = sum(flat.to(self.devices[-1], non_blocking=True) for flat in flats) / len(flats)
            sizes = [self.copies[0][index].numel() for index in self.buckets[number]]
            for own, device in [(self.copies[-1], self.devices[-1])]:
                pieces = total.to(device, non_blocking=True).split(sizes)
                for index, piece in zip(self.buckets[number], pieces):
                    own[index].grad.copy_(piece.view_as(own[index]))

    def finish(self):
        for device, stream in zip(self.devices, self.streams):
            self.gpu.current_stream(device).wait_stream(stream)
        self.begin()


def overlapped_mean(models, buckets):
    return OverlappedMean(models, buckets).finish


# %% wrong: one_gradient_at_a_time
# Sends each gradient as soon as it is there, as in the lesson. So there are no buckets, and very many small copies.

from contextlib import ExitStack
from functools import partial


class OverlappedMean:
    def __init__(self, models, buckets):
        self.copies = [list(model.parameters()) for model in models]
        self.gpu = torch.get_device_module(self.copies[0][0].device)
        self.streams = [self.gpu.Stream(own[0].device) for own in self.copies]
        self.events = {}
        for bucket in buckets:
            for index in bucket:
                self.events[index] = []
                for own in self.copies:
                    own[index].register_post_accumulate_grad_hook(partial(self.came, index))

    def came(self, index, parameter):
        self.events[index].append(self.gpu.current_stream(parameter.device).record_event())
        if len(self.events[index]) < len(self.copies):
            return
        with ExitStack() as stack:
            for stream, event in zip(self.streams, self.events[index]):
                stream.wait_event(event)
                stack.enter_context(self.gpu.stream(stream))
            gradients = [own[index].grad for own in self.copies]
            mean = sum(g.to(parameter.device, non_blocking=True) for g in gradients) / len(gradients)
            for gradient in gradients:
                gradient.copy_(mean, non_blocking=True)
        self.events[index] = []

    def finish(self):
        for stream, own in zip(self.streams, self.copies):
            self.gpu.current_stream(own[0].device).wait_stream(stream)


def overlapped_mean(models, buckets):
    return OverlappedMean(models, buckets).finish


# %% wrong: wrong_order_in_the_bucket
# Packs a bucket in the order in which the gradients came, and unpacks it in the order of the parameters.

from contextlib import ExitStack
from functools import partial


class OverlappedMean:
    def __init__(self, models, buckets):
        self.gpu = torch.get_device_module(next(models[0].parameters()).device)
        self.copies = [list(model.parameters()) for model in models]
        self.devices = [own[0].device for own in self.copies]
        self.streams = [self.gpu.Stream(device) for device in self.devices]
        self.buckets = buckets
        self.begin()
        for rank, own in enumerate(self.copies):
            for number, bucket in enumerate(buckets):
                for index in bucket:
                    own[index].register_post_accumulate_grad_hook(partial(self.came, rank, number))

    def begin(self):
        self.missing = {(r, n): len(b) for r in range(len(self.copies)) for n, b in enumerate(self.buckets)}
        self.packed = [{} for _ in self.buckets]

    def came(self, rank, number, parameter):
        self.missing[rank, number] -= 1
        if self.missing[rank, number] == 0:
            own, device = self.copies[rank], self.devices[rank]
            flat = torch.cat([own[index].grad.flatten() for index in self.buckets[number]])
            self.packed[number][rank] = flat, self.gpu.current_stream(device).record_event()
            if len(self.packed[number]) == len(self.copies):
                self.average(number)

    def average(self, number):
        with ExitStack() as stack:
            for rank, stream in enumerate(self.streams):
                stream.wait_event(self.packed[number][rank][1])
                stack.enter_context(self.gpu.stream(stream))
            flats = [self.packed[number][rank][0] for rank in range(len(self.copies))]
            total = sum(flat.to(self.devices[-1], non_blocking=True) for flat in flats) / len(flats)
            sizes = [self.copies[0][index].numel() for index in sorted(self.buckets[number])]
            for own, device in zip(self.copies, self.devices):
                pieces = total.to(device, non_blocking=True).split(sizes)
                for index, piece in zip(sorted(self.buckets[number]), pieces):
                    own[index].grad.copy_(piece.view_as(own[index]))

    def finish(self):
        for device, stream in zip(self.devices, self.streams):
            self.gpu.current_stream(device).wait_stream(stream)
        self.begin()


def overlapped_mean(models, buckets):
    return OverlappedMean(models, buckets).finish


# %% wrong: python_waits_for_events
# Lets Python wait until a bucket is packed (event.synchronize()), and not the stream that copies it.

from contextlib import ExitStack
from functools import partial


class OverlappedMean:
    def __init__(self, models, buckets):
        self.gpu = torch.get_device_module(next(models[0].parameters()).device)
        self.copies = [list(model.parameters()) for model in models]
        self.devices = [own[0].device for own in self.copies]
        self.streams = [self.gpu.Stream(device) for device in self.devices]
        self.buckets = buckets
        self.begin()
        for rank, own in enumerate(self.copies):
            for number, bucket in enumerate(buckets):
                for index in bucket:
                    own[index].register_post_accumulate_grad_hook(partial(self.came, rank, number))

    def begin(self):
        self.missing = {(r, n): len(b) for r in range(len(self.copies)) for n, b in enumerate(self.buckets)}
        self.packed = [{} for _ in self.buckets]

    def came(self, rank, number, parameter):
        self.missing[rank, number] -= 1
        if self.missing[rank, number] == 0:
            own, device = self.copies[rank], self.devices[rank]
            flat = torch.cat([own[index].grad.flatten() for index in self.buckets[number]])
            self.packed[number][rank] = flat, self.gpu.current_stream(device).record_event()
            if len(self.packed[number]) == len(self.copies):
                self.average(number)

    def average(self, number):
        with ExitStack() as stack:
            for rank, stream in enumerate(self.streams):
                self.packed[number][rank][1].synchronize()
                stack.enter_context(self.gpu.stream(stream))
            flats = [self.packed[number][rank][0] for rank in range(len(self.copies))]
            sizes = [self.copies[0][index].numel() for index in self.buckets[number]]
            for own, device in zip(self.copies, self.devices):
                total = sum(flat.to(device, non_blocking=True) for flat in flats) / len(flats)
                pieces = total.split(sizes)
                for index, piece in zip(self.buckets[number], pieces):
                    own[index].grad.copy_(piece.view_as(own[index]))

    def finish(self):
        for device, stream in zip(self.devices, self.streams):
            self.gpu.current_stream(device).wait_stream(stream)
        self.begin()


def overlapped_mean(models, buckets):
    return OverlappedMean(models, buckets).finish


# %% wrong: python_waits_in_finish
# Lets finish() return when all devices are done, because the gradients are used next.

from contextlib import ExitStack
from functools import partial


class OverlappedMean:
    def __init__(self, models, buckets):
        self.gpu = torch.get_device_module(next(models[0].parameters()).device)
        self.copies = [list(model.parameters()) for model in models]
        self.devices = [own[0].device for own in self.copies]
        self.streams = [self.gpu.Stream(device) for device in self.devices]
        self.buckets = buckets
        self.begin()
        for rank, own in enumerate(self.copies):
            for number, bucket in enumerate(buckets):
                for index in bucket:
                    own[index].register_post_accumulate_grad_hook(partial(self.came, rank, number))

    def begin(self):
        self.missing = {(r, n): len(b) for r in range(len(self.copies)) for n, b in enumerate(self.buckets)}
        self.packed = [{} for _ in self.buckets]

    def came(self, rank, number, parameter):
        self.missing[rank, number] -= 1
        if self.missing[rank, number] == 0:
            own, device = self.copies[rank], self.devices[rank]
            flat = torch.cat([own[index].grad.flatten() for index in self.buckets[number]])
            self.packed[number][rank] = flat, self.gpu.current_stream(device).record_event()
            if len(self.packed[number]) == len(self.copies):
                self.average(number)

    def average(self, number):
        with ExitStack() as stack:
            for rank, stream in enumerate(self.streams):
                stream.wait_event(self.packed[number][rank][1])
                stack.enter_context(self.gpu.stream(stream))
            flats = [self.packed[number][rank][0] for rank in range(len(self.copies))]
            sizes = [self.copies[0][index].numel() for index in self.buckets[number]]
            for own, device in zip(self.copies, self.devices):
                total = sum(flat.to(device, non_blocking=True) for flat in flats) / len(flats)
                pieces = total.split(sizes)
                for index, piece in zip(self.buckets[number], pieces):
                    own[index].grad.copy_(piece.view_as(own[index]))

    def finish(self):
        for device in self.devices:
            self.gpu.synchronize(device)
        self.begin()


def overlapped_mean(models, buckets):
    return OverlappedMean(models, buckets).finish


# %% wrong: launched_in_finish
# Records events in the hooks, and launches the averaging in finish(): where Python is ahead, the times are right.

from contextlib import ExitStack
from functools import partial


class OverlappedMean:
    def __init__(self, models, buckets):
        self.gpu = torch.get_device_module(next(models[0].parameters()).device)
        self.copies = [list(model.parameters()) for model in models]
        self.devices = [own[0].device for own in self.copies]
        self.streams = [self.gpu.Stream(device) for device in self.devices]
        self.buckets = buckets
        self.begin()
        for rank, own in enumerate(self.copies):
            for number, bucket in enumerate(buckets):
                for index in bucket:
                    own[index].register_post_accumulate_grad_hook(partial(self.came, rank, number))

    def begin(self):
        self.missing = {(r, n): len(b) for r in range(len(self.copies)) for n, b in enumerate(self.buckets)}
        self.packed = [{} for _ in self.buckets]

    def came(self, rank, number, parameter):
        self.missing[rank, number] -= 1
        if self.missing[rank, number] == 0:
            own, device = self.copies[rank], self.devices[rank]
            flat = torch.cat([own[index].grad.flatten() for index in self.buckets[number]])
            self.packed[number][rank] = flat, self.gpu.current_stream(device).record_event()

    def average(self, number):
        with ExitStack() as stack:
            for rank, stream in enumerate(self.streams):
                stream.wait_event(self.packed[number][rank][1])
                stack.enter_context(self.gpu.stream(stream))
            flats = [self.packed[number][rank][0] for rank in range(len(self.copies))]
            total = sum(flat.to(self.devices[-1], non_blocking=True) for flat in flats) / len(flats)
            sizes = [self.copies[0][index].numel() for index in self.buckets[number]]
            for own, device in zip(self.copies, self.devices):
                pieces = total.to(device, non_blocking=True).split(sizes)
                for index, piece in zip(self.buckets[number], pieces):
                    own[index].grad.copy_(piece.view_as(own[index]))

    def finish(self):
        for number in range(len(self.buckets)):
            self.average(number)
        for device, stream in zip(self.devices, self.streams):
            self.gpu.current_stream(device).wait_stream(stream)
        self.begin()


def overlapped_mean(models, buckets):
    return OverlappedMean(models, buckets).finish


# %% wrong: waits_for_no_bucket
# Launches the averaging when the last hook runs, and thinks that the gradients are there because the hook was called.

from contextlib import ExitStack
from functools import partial


class OverlappedMean:
    def __init__(self, models, buckets):
        self.gpu = torch.get_device_module(next(models[0].parameters()).device)
        self.copies = [list(model.parameters()) for model in models]
        self.devices = [own[0].device for own in self.copies]
        self.streams = [self.gpu.Stream(device) for device in self.devices]
        self.buckets = buckets
        self.begin()
        for rank, own in enumerate(self.copies):
            for number, bucket in enumerate(buckets):
                for index in bucket:
                    own[index].register_post_accumulate_grad_hook(partial(self.came, rank, number))

    def begin(self):
        self.missing = {(r, n): len(b) for r in range(len(self.copies)) for n, b in enumerate(self.buckets)}
        self.means = {}
        self.packed = [{} for _ in self.buckets]

    def came(self, rank, number, parameter):
        self.missing[rank, number] -= 1
        if self.missing[rank, number] == 0:
            own, device = self.copies[rank], self.devices[rank]
            flat = torch.cat([own[index].grad.flatten() for index in self.buckets[number]])
            self.packed[number][rank] = flat, self.gpu.current_stream(device).record_event()
            if len(self.packed[number]) == len(self.copies):
                self.average(number)

    def average(self, number):
        with ExitStack() as stack:
            for rank, stream in enumerate(self.streams):
                stack.enter_context(self.gpu.stream(stream))
            flats = [self.packed[number][rank][0] for rank in range(len(self.copies))]
            total = sum(flat.to(self.devices[-1], non_blocking=True) for flat in flats) / len(flats)
            sizes = [self.copies[0][index].numel() for index in self.buckets[number]]
            self.means[number] = [total.to(device, non_blocking=True).split(sizes) for device in self.devices]

    def finish(self):
        for device, stream in zip(self.devices, self.streams):
            self.gpu.current_stream(device).wait_stream(stream)
        for number, means in self.means.items():
            for own, pieces in zip(self.copies, means):
                for index, piece in zip(self.buckets[number], pieces):
                    own[index].grad = piece.view_as(own[index])
        self.begin()


def overlapped_mean(models, buckets):
    return OverlappedMean(models, buckets).finish


# %% wrong: adds_before_they_arrive
# Copies on streams of their own, and adds on another one, which waits for the own bucket, and not for what has been sent.

from contextlib import ExitStack
from functools import partial


class OverlappedMean:
    def __init__(self, models, buckets):
        self.gpu = torch.get_device_module(next(models[0].parameters()).device)
        self.copies = [list(model.parameters()) for model in models]
        self.devices = [own[0].device for own in self.copies]
        self.streams = [self.gpu.Stream(device) for device in self.devices]
        self.sending = [self.gpu.Stream(device) for device in self.devices]
        self.buckets = buckets
        self.begin()
        for rank, own in enumerate(self.copies):
            for number, bucket in enumerate(buckets):
                for index in bucket:
                    own[index].register_post_accumulate_grad_hook(partial(self.came, rank, number))

    def begin(self):
        self.missing = {(r, n): len(b) for r in range(len(self.copies)) for n, b in enumerate(self.buckets)}
        self.means = {}
        self.packed = [{} for _ in self.buckets]

    def came(self, rank, number, parameter):
        self.missing[rank, number] -= 1
        if self.missing[rank, number] == 0:
            own, device = self.copies[rank], self.devices[rank]
            flat = torch.cat([own[index].grad.flatten() for index in self.buckets[number]])
            self.packed[number][rank] = flat, self.gpu.current_stream(device).record_event()
            if len(self.packed[number]) == len(self.copies):
                self.average(number)

    def average(self, number):
        with ExitStack() as stack:
            for rank, stream in enumerate(self.sending):
                stream.wait_event(self.packed[number][rank][1])
                stack.enter_context(self.gpu.stream(stream))
            flats = [self.packed[number][rank][0] for rank in range(len(self.copies))]
            flats = [flat.to(self.devices[-1], non_blocking=True) for flat in flats]
        with ExitStack() as stack:
            for rank, stream in enumerate(self.streams):
                stream.wait_event(self.packed[number][rank][1])
                stack.enter_context(self.gpu.stream(stream))
            total = sum(flats) / len(flats)
            sizes = [self.copies[0][index].numel() for index in self.buckets[number]]
            self.means[number] = [total.to(device, non_blocking=True).split(sizes) for device in self.devices]

    def finish(self):
        for device, stream in zip(self.devices, self.streams):
            self.gpu.current_stream(device).wait_stream(stream)
        for number, means in self.means.items():
            for own, pieces in zip(self.copies, means):
                for index, piece in zip(self.buckets[number], pieces):
                    own[index].grad = piece.view_as(own[index])
        self.begin()


def overlapped_mean(models, buckets):
    return OverlappedMean(models, buckets).finish


# %% right: everybody_adds
# Sends each packed bucket to all copies, and each adds up for itself.

from contextlib import ExitStack
from functools import partial


class OverlappedMean:
    def __init__(self, models, buckets):
        self.gpu = torch.get_device_module(next(models[0].parameters()).device)
        self.copies = [list(model.parameters()) for model in models]
        self.devices = [own[0].device for own in self.copies]
        self.streams = [self.gpu.Stream(device) for device in self.devices]
        self.buckets = buckets
        self.begin()
        for rank, own in enumerate(self.copies):
            for number, bucket in enumerate(buckets):
                for index in bucket:
                    own[index].register_post_accumulate_grad_hook(partial(self.came, rank, number))

    def begin(self):
        self.missing = {(r, n): len(b) for r in range(len(self.copies)) for n, b in enumerate(self.buckets)}
        self.packed = [{} for _ in self.buckets]

    def came(self, rank, number, parameter):
        self.missing[rank, number] -= 1
        if self.missing[rank, number] == 0:
            own, device = self.copies[rank], self.devices[rank]
            flat = torch.cat([own[index].grad.flatten() for index in self.buckets[number]])
            self.packed[number][rank] = flat, self.gpu.current_stream(device).record_event()
            if len(self.packed[number]) == len(self.copies):
                self.average(number)

    def average(self, number):
        with ExitStack() as stack:
            for rank, stream in enumerate(self.streams):
                stream.wait_event(self.packed[number][rank][1])
                stack.enter_context(self.gpu.stream(stream))
            flats = [self.packed[number][rank][0] for rank in range(len(self.copies))]
            sizes = [self.copies[0][index].numel() for index in self.buckets[number]]
            for own, device in zip(self.copies, self.devices):
                total = sum(flat.to(device, non_blocking=True) for flat in flats) / len(flats)
                pieces = total.split(sizes)
                for index, piece in zip(self.buckets[number], pieces):
                    own[index].grad.copy_(piece.view_as(own[index]))

    def finish(self):
        for device, stream in zip(self.devices, self.streams):
            self.gpu.current_stream(device).wait_stream(stream)
        self.begin()


def overlapped_mean(models, buckets):
    return OverlappedMean(models, buckets).finish


# %% right: packed_on_the_own_stream
# Packs on the own streams when all copies have the bucket, and adds on the first device.

from contextlib import ExitStack
from functools import partial


class OverlappedMean:
    def __init__(self, models, buckets):
        self.params = [list(m.parameters()) for m in models]
        self.gpu = torch.get_device_module(self.params[0][0].device)
        self.comm = [self.gpu.Stream(ps[0].device) for ps in self.params]
        self.buckets = buckets
        self.where = {i: n for n, bucket in enumerate(buckets) for i in bucket}
        self.arrived = [0] * len(buckets)
        self.events = [[] for _ in buckets]
        for ps in self.params:
            for i in self.where:
                ps[i].register_post_accumulate_grad_hook(lambda p, i=i: self.on_grad(p, i))

    def on_grad(self, p, i):
        n = self.where[i]
        self.events[n].append((p.device, self.gpu.current_stream(p.device).record_event()))
        if len(self.events[n]) == len(self.buckets[n]) * len(self.params):
            self.reduce(n)

    def reduce(self, n):
        bucket = self.buckets[n]
        for stream in self.comm:
            for device, event in self.events[n]:
                if device == stream.device:
                    stream.wait_event(event)
        with ExitStack() as on:
            for stream in self.comm:
                on.enter_context(self.gpu.stream(stream))
            packed = [torch.cat([ps[i].grad.reshape(-1) for i in bucket]) for ps in self.params]
            mean = packed[0] / len(packed)
            for other in packed[1:]:
                mean += other.to(mean.device, non_blocking=True) / len(packed)
            for ps in self.params:
                here, start = mean.to(ps[0].device, non_blocking=True), 0
                for i in bucket:
                    ps[i].grad.copy_(here[start : start + ps[i].numel()].view_as(ps[i]))
                    start += ps[i].numel()

    def finish(self):
        for stream in self.comm:
            self.gpu.current_stream(stream.device).wait_stream(stream)
        self.events = [[] for _ in self.buckets]


def overlapped_mean(models, buckets):
    return OverlappedMean(models, buckets).finish


# %% right: a_ring
# Adds up by a ring, in place on the packed buckets.

from contextlib import ExitStack
from functools import partial


class OverlappedMean:
    def __init__(self, models, buckets):
        self.gpu = torch.get_device_module(next(models[0].parameters()).device)
        self.copies = [list(model.parameters()) for model in models]
        self.devices = [own[0].device for own in self.copies]
        self.streams = [self.gpu.Stream(device) for device in self.devices]
        self.buckets = buckets
        self.begin()
        for rank, own in enumerate(self.copies):
            for number, bucket in enumerate(buckets):
                for index in bucket:
                    own[index].register_post_accumulate_grad_hook(partial(self.came, rank, number))

    def begin(self):
        self.missing = {(r, n): len(b) for r in range(len(self.copies)) for n, b in enumerate(self.buckets)}
        self.packed = [{} for _ in self.buckets]

    def came(self, rank, number, parameter):
        self.missing[rank, number] -= 1
        if self.missing[rank, number] == 0:
            own, device = self.copies[rank], self.devices[rank]
            flat = torch.cat([own[index].grad.flatten() for index in self.buckets[number]])
            self.packed[number][rank] = flat, self.gpu.current_stream(device).record_event()
            if len(self.packed[number]) == len(self.copies):
                self.average(number)

    def average(self, number):
        with ExitStack() as stack:
            for rank, stream in enumerate(self.streams):
                stream.wait_event(self.packed[number][rank][1])
                stack.enter_context(self.gpu.stream(stream))
            flats = [self.packed[number][rank][0] for rank in range(len(self.copies))]
            totals = self.ring(flats)
            sizes = [self.copies[0][index].numel() for index in self.buckets[number]]
            for own, total in zip(self.copies, totals):
                pieces = (total / len(flats)).split(sizes)
                for index, piece in zip(self.buckets[number], pieces):
                    own[index].grad.copy_(piece.view_as(own[index]))

    def ring(self, flats):
        count = len(flats)
        pieces = [flat.tensor_split(count) for flat in flats]
        for turn in range(2 * count - 2):
            for rank in range(count):
                to, piece = (rank + 1) % count, (rank - turn) % count
                if turn < count - 1:
                    pieces[to][piece].add_(pieces[rank][piece].to(flats[to].device, non_blocking=True))
                else:
                    pieces[to][piece].copy_(pieces[rank][piece], non_blocking=True)
        return flats

    def finish(self):
        for device, stream in zip(self.devices, self.streams):
            self.gpu.current_stream(device).wait_stream(stream)
        self.begin()


def overlapped_mean(models, buckets):
    return OverlappedMean(models, buckets).finish


# %% right: written_at_the_end
# Sends and adds behind the backward pass, and writes the gradients in finish.

from contextlib import ExitStack
from functools import partial


class OverlappedMean:
    def __init__(self, models, buckets):
        self.gpu = torch.get_device_module(next(models[0].parameters()).device)
        self.copies = [list(model.parameters()) for model in models]
        self.devices = [own[0].device for own in self.copies]
        self.streams = [self.gpu.Stream(device) for device in self.devices]
        self.buckets = buckets
        self.begin()
        for rank, own in enumerate(self.copies):
            for number, bucket in enumerate(buckets):
                for index in bucket:
                    own[index].register_post_accumulate_grad_hook(partial(self.came, rank, number))

    def begin(self):
        self.missing = {(r, n): len(b) for r in range(len(self.copies)) for n, b in enumerate(self.buckets)}
        self.means = {}
        self.packed = [{} for _ in self.buckets]

    def came(self, rank, number, parameter):
        self.missing[rank, number] -= 1
        if self.missing[rank, number] == 0:
            own, device = self.copies[rank], self.devices[rank]
            flat = torch.cat([own[index].grad.flatten() for index in self.buckets[number]])
            self.packed[number][rank] = flat, self.gpu.current_stream(device).record_event()
            if len(self.packed[number]) == len(self.copies):
                self.average(number)

    def average(self, number):
        with ExitStack() as stack:
            for rank, stream in enumerate(self.streams):
                stream.wait_event(self.packed[number][rank][1])
                stack.enter_context(self.gpu.stream(stream))
            flats = [self.packed[number][rank][0] for rank in range(len(self.copies))]
            total = sum(flat.to(self.devices[-1], non_blocking=True) for flat in flats) / len(flats)
            sizes = [self.copies[0][index].numel() for index in self.buckets[number]]
            self.means[number] = [total.to(device, non_blocking=True).split(sizes) for device in self.devices]

    def finish(self):
        for device, stream in zip(self.devices, self.streams):
            self.gpu.current_stream(device).wait_stream(stream)
        for number, means in self.means.items():
            for own, pieces in zip(self.copies, means):
                for index, piece in zip(self.buckets[number], pieces):
                    own[index].grad = piece.view_as(own[index])
        self.begin()


def overlapped_mean(models, buckets):
    return OverlappedMean(models, buckets).finish


# %% wrong: half_of_the_sum
# Divides the sum by two, the number of replicas in the trials.

def overlapped_mean(models, buckets):
    copies = [list(model.parameters()) for model in models]
    devices = [own[0].device for own in copies]
    streams = [gpu.Stream(device) for device in devices]
    came, packed, averaged = Counter(), defaultdict(dict), {}

    def arrived(rank, number, _):
        came[rank, number] += 1
        if came[rank, number] == len(buckets[number]):
            flat = torch.cat([copies[rank][index].grad.flatten() for index in buckets[number]])
            packed[number][rank] = flat, gpu.current_stream(devices[rank]).record_event()
            if len(packed[number]) == len(copies):
                average(number)

    def average(number):
        with ExitStack() as stack:
            for rank, stream in enumerate(streams):
                stream.wait_event(packed[number][rank][1])
                stack.enter_context(gpu.stream(stream))
            flats = [flat.to(devices[-1], non_blocking=True) for flat, _ in packed[number].values()]
            mean = sum(flats) / 2
            averaged[number] = [mean.to(device, non_blocking=True) for device in devices]

    def finish():
        for device, stream in zip(devices, streams, strict=True):
            gpu.current_stream(device).wait_stream(stream)
        for number, means in averaged.items():
            for own, mean in zip(copies, means, strict=True):
                gradients = [own[index].grad for index in buckets[number]]
                pieces = mean.split([gradient.numel() for gradient in gradients])
                for gradient, piece in zip(gradients, pieces, strict=True):
                    gradient.copy_(piece.view_as(gradient))
        for seen in (came, packed, averaged):
            seen.clear()

    for rank, own in enumerate(copies):
        for number, bucket in enumerate(buckets):
            for index in bucket:
                own[index].register_post_accumulate_grad_hook(partial(arrived, rank, number))
    return finish


# %% wrong: last_in_the_list_comes_last
# Thinks that a bucket is there when the gradient that is named last in it has come.

def overlapped_mean(models, buckets):
    copies = [list(model.parameters()) for model in models]
    devices = [own[0].device for own in copies]
    streams = [gpu.Stream(device) for device in devices]
    came, packed, averaged = Counter(), defaultdict(dict), {}

    def arrived(rank, number, index, _):
        if index == buckets[number][-1]:
            flat = torch.cat([copies[rank][index].grad.flatten() for index in buckets[number]])
            packed[number][rank] = flat, gpu.current_stream(devices[rank]).record_event()
            if len(packed[number]) == len(copies):
                average(number)

    def average(number):
        with ExitStack() as stack:
            for rank, stream in enumerate(streams):
                stream.wait_event(packed[number][rank][1])
                stack.enter_context(gpu.stream(stream))
            flats = [flat.to(devices[-1], non_blocking=True) for flat, _ in packed[number].values()]
            mean = sum(flats) / len(flats)
            averaged[number] = [mean.to(device, non_blocking=True) for device in devices]

    def finish():
        for device, stream in zip(devices, streams, strict=True):
            gpu.current_stream(device).wait_stream(stream)
        for number, means in averaged.items():
            for own, mean in zip(copies, means, strict=True):
                gradients = [own[index].grad for index in buckets[number]]
                pieces = mean.split([gradient.numel() for gradient in gradients])
                for gradient, piece in zip(gradients, pieces, strict=True):
                    gradient.copy_(piece.view_as(gradient))
        for seen in (came, packed, averaged):
            seen.clear()

    for rank, own in enumerate(copies):
        for number, bucket in enumerate(buckets):
            for index in bucket:
                own[index].register_post_accumulate_grad_hook(partial(arrived, rank, number, index))
    return finish


# %% wrong: packs_in_float32
# Packs into a float32 tensor: gradients of float64 lose digits on their way.

def overlapped_mean(models, buckets):
    parameters = [list(model.parameters()) for model in models]
    homes = [own[0].device for own in parameters]
    gpu = torch.get_device_module(homes[0])
    copies = len(models)
    # for each link a stream on the device that sends and one on the device that receives
    links = {
        (s, t): (gpu.Stream(homes[s]), gpu.Stream(homes[t])) for s in range(copies) for t in range(copies) if s != t
    }
    bucket_of = {place: number for number, bucket in enumerate(buckets) for place in bucket}
    missing = [[len(bucket)] * copies for bucket in buckets]
    packed = [[None] * copies for _ in buckets]
    received = [{} for _ in buckets]

    def send(number):
        for (s, t), (sending, receiving) in links.items():
            flat, ready = packed[number][s]
            sending.wait_event(ready)
            with gpu.stream(sending), gpu.stream(receiving):
                arrived = flat.to(homes[t], non_blocking=True)
            flat.record_stream(sending)
            received[number][s, t] = arrived, receiving.record_event()

    def arrives(rank, place, _):
        number = bucket_of[place]
        missing[number][rank] -= 1
        if missing[number][rank] == 0:
            flat = torch.cat([parameters[rank][i].grad.flatten().float() for i in buckets[number]])
            packed[number][rank] = flat, gpu.current_stream(homes[rank]).record_event()
            if not any(missing[number]):
                send(number)

    for rank, own in enumerate(parameters):
        for place, parameter in enumerate(own):
            if place in bucket_of:
                parameter.register_post_accumulate_grad_hook(partial(arrives, rank, place))

    @torch.no_grad()
    def finish():
        for number, bucket in enumerate(buckets):
            for t in range(copies):
                here = gpu.current_stream(homes[t])
                total = None
                for s in range(copies):
                    if s == t:
                        flat = packed[number][s][0]
                    else:
                        flat, arrived = received[number][s, t]
                        here.wait_event(arrived)
                        flat.record_stream(here)
                    total = flat if total is None else total + flat
                mean = total / copies
                sizes = [parameters[t][i].numel() for i in bucket]
                for i, piece in zip(bucket, mean.split(sizes), strict=True):
                    parameters[t][i].grad.copy_(piece.view_as(parameters[t][i]))
            missing[number] = [len(bucket)] * copies
            packed[number] = [None] * copies
            received[number] = {}

    return finish


# %% right: one_stream_for_each_device
# All copies of a device share one stream, each replica adds up for itself, and record_stream keeps the memory.

def overlapped_mean(models, buckets):
    parameters = [list(model.parameters()) for model in models]
    homes = [own[0].device for own in parameters]
    gpu = torch.get_device_module(homes[0])
    copies = len(models)
    # for each link the stream of the device that sends and that of the device that receives
    own_stream = [gpu.Stream(home) for home in homes]
    links = {(s, t): (own_stream[s], own_stream[t]) for s in range(copies) for t in range(copies) if s != t}
    bucket_of = {place: number for number, bucket in enumerate(buckets) for place in bucket}
    missing = [[len(bucket)] * copies for bucket in buckets]
    packed = [[None] * copies for _ in buckets]
    received = [{} for _ in buckets]

    def send(number):
        for (s, t), (sending, receiving) in links.items():
            flat, ready = packed[number][s]
            sending.wait_event(ready)
            with gpu.stream(sending), gpu.stream(receiving):
                arrived = flat.to(homes[t], non_blocking=True)
            flat.record_stream(sending)
            received[number][s, t] = arrived, receiving.record_event()

    def arrives(rank, place, _):
        number = bucket_of[place]
        missing[number][rank] -= 1
        if missing[number][rank] == 0:
            flat = torch.cat([parameters[rank][i].grad.flatten() for i in buckets[number]])
            packed[number][rank] = flat, gpu.current_stream(homes[rank]).record_event()
            if not any(missing[number]):
                send(number)

    for rank, own in enumerate(parameters):
        for place, parameter in enumerate(own):
            if place in bucket_of:
                parameter.register_post_accumulate_grad_hook(partial(arrives, rank, place))

    @torch.no_grad()
    def finish():
        for number, bucket in enumerate(buckets):
            for t in range(copies):
                here = gpu.current_stream(homes[t])
                total = None
                for s in range(copies):
                    if s == t:
                        flat = packed[number][s][0]
                    else:
                        flat, arrived = received[number][s, t]
                        here.wait_event(arrived)
                        flat.record_stream(here)
                    total = flat if total is None else total + flat
                mean = total / copies
                sizes = [parameters[t][i].numel() for i in bucket]
                for i, piece in zip(bucket, mean.split(sizes), strict=True):
                    parameters[t][i].grad.copy_(piece.view_as(parameters[t][i]))
            missing[number] = [len(bucket)] * copies
            packed[number] = [None] * copies
            received[number] = {}

    return finish


# %% wrong: only_the_first_is_ahead
# Thinks that only the first replica's stream has a whole backward pass in it when the last hook of a bucket runs.

def overlapped_mean(models, buckets):
    parameters = [list(model.parameters()) for model in models]
    streams = [gpu.Stream(own[0].device) for own in parameters]
    counts, packed, averaged = Counter(), defaultdict(dict), []

    def ready(rank, number):
        counts[rank, number] += 1
        if counts[rank, number] < len(buckets[number]):
            return
        flat = torch.cat([parameters[rank][index].grad.flatten() for index in buckets[number]])
        packed[number][rank] = flat, gpu.current_stream(flat.device).record_event()
        if len(packed[number]) < len(models):
            return
        first, *others = packed[number]
        streams[first].wait_event(packed[number][first][1])
        for other in others:
            streams[other].wait_stream(gpu.current_stream(parameters[other][0].device))
        flats = [packed[number][each][0] for each in range(len(models))]
        averaged.append((number, mean_on_each(flats, streams)))

    def finish():
        for own, stream in zip(parameters, streams):
            gpu.current_stream(own[0].device).wait_stream(stream)
        for number, means in averaged:
            for own, mean in zip(parameters, means):
                unpack(mean, [own[index].grad for index in buckets[number]])
        counts.clear(), packed.clear(), averaged.clear()

    when_ready(models, buckets, ready)
    return finish


# %% wrong: waits_in_each_hook
# Lets a stream wait as soon as its replica has packed: behind all buckets of the replica that is launched first.

def overlapped_mean(models, buckets):
    parameters = [list(model.parameters()) for model in models]
    streams = [gpu.Stream(own[0].device) for own in parameters]
    waiting = {}

    def begin():
        for number, bucket in enumerate(buckets):
            waiting[number] = {"missing": [len(bucket)] * len(models), "flats": [None] * len(models), "means": None}

    def ready(rank, number):
        bucket = waiting[number]
        bucket["missing"][rank] -= 1
        if bucket["missing"][rank]:
            return
        bucket["flats"][rank] = torch.cat([parameters[rank][index].grad.view(-1) for index in buckets[number]])
        streams[rank].wait_event(gpu.current_stream(parameters[rank][0].device).record_event())
        if not any(bucket["missing"]):
            bucket["means"] = mean_on_each(bucket["flats"], streams)

    def finish():
        for rank, own in enumerate(parameters):
            gpu.current_stream(own[0].device).wait_stream(streams[rank])
            for number, bucket in waiting.items():
                unpack(bucket["means"][rank], [own[index].grad for index in buckets[number]])
        begin()

    begin()
    when_ready(models, buckets, ready)
    return finish


# %% right: with_the_cell_before
# One record for each bucket, with the helpers of the cell before: what is missing, what is packed, the means.

def overlapped_mean(models, buckets):
    parameters = [list(model.parameters()) for model in models]
    streams = [gpu.Stream(own[0].device) for own in parameters]
    waiting = {}

    def begin():
        for number, bucket in enumerate(buckets):
            missing, flats, events = [len(bucket)] * len(models), [None] * len(models), [None] * len(models)
            waiting[number] = {"missing": missing, "flats": flats, "events": events, "means": None}

    def ready(rank, number):
        bucket = waiting[number]
        bucket["missing"][rank] -= 1
        if bucket["missing"][rank]:
            return
        bucket["flats"][rank] = torch.cat([parameters[rank][index].grad.view(-1) for index in buckets[number]])
        bucket["events"][rank] = gpu.current_stream(parameters[rank][0].device).record_event()
        if not any(bucket["missing"]):
            for stream, event in zip(streams, bucket["events"]):
                stream.wait_event(event)
            bucket["means"] = mean_on_each(bucket["flats"], streams)

    def finish():
        for rank, own in enumerate(parameters):
            gpu.current_stream(own[0].device).wait_stream(streams[rank])
            for number, bucket in waiting.items():
                unpack(bucket["means"][rank], [own[index].grad for index in buckets[number]])
        begin()

    begin()
    when_ready(models, buckets, ready)
    return finish
