"""Takes the first device's waits for a copy, those for the CPU's batch too."""


def copy_share(timeline):
    return timeline.waits(timeline.devices[0])["a copy"] / timeline.span
