"""What each device did, and when: recorded from simulated GPUs (their log) or from CUDA (torch.profiler).

    with record() as timeline:
        train_one_step()
    timeline.table()

A `Timeline` is plain data and needs no GPU: it can be saved, sent, loaded and studied elsewhere, and `Timeline.open`
makes one of any trace that torch.profiler wrote. Times are seconds.
"""

from utils.observe.trace.event import PHASES, Event
from utils.observe.trace.recording import micro_batch, numbered, record
from utils.observe.trace.timeline import CAUSES, COMMUNICATION, Timeline

__all__ = ["CAUSES", "COMMUNICATION", "PHASES", "Event", "Timeline", "micro_batch", "numbered", "record"]
