"""Names the stream, and asks whether the event has happened."""


def by_events(work, gpu):
    queue = gpu.current_stream()
    events = [gpu.Event(enable_timing=True) for _ in range(2)]
    events[0].record(queue)
    work()
    events[1].record(queue)
    if not events[1].query():
        print("still at work")
        events[1].synchronize()
    return events[0].elapsed_time(events[1]) * 0.001
