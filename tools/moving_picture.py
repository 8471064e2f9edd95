"""The picture that moves on the site's first page: a pipeline of four micro-batches on four GPUs, timed by `play`."""

from __future__ import annotations

from utils.schedules import gpipe, play

STAGES, MICRO_BATCHES = 4, 4
SECONDS = 6.0  # of nine, in which the picture is filled
LEFT, WIDTH, ROW, HEIGHT = 58, 640, 34, 26
COLOURS = {"forward": "#0072b2", "backward": "#d55e00"}


def svg() -> str:
    """The picture as an SVG element. Style and movement are in docs/site/_static/course.css."""
    timeline = play(gpipe(STAGES, MICRO_BATCHES)).timeline
    events = [event for event in timeline.events if not event.is_copy]
    begin, span = min(event.start for event in events), timeline.span
    idle = 1 - sum(timeline.busy(device) for device in timeline.devices) / len(timeline.devices) / span
    rows = list(timeline.devices)
    boxes = [f'<text x="0" y="{ROW * n + 18}">GPU {n}</text>' for n in range(len(rows))]
    for event in events:
        at, long = (event.start - begin) / span, (event.end - event.start) / span
        boxes.append(
            f'<rect x="{LEFT + WIDTH * at:.1f}" y="{ROW * rows.index(event.device)}" width="{WIDTH * long - 1.5:.1f}" '
            f'height="{HEIGHT}" rx="3" fill="{COLOURS[event.phase]}" style="--at:{SECONDS * at:.2f}s"/>'
        )
    told = (
        f"A pipeline, in motion. Four GPUs work on four micro-batches, each GPU a turn later than the one above it: "
        f"first forward (blue), then backward (orange). Each of them is idle for {idle:.0%} of the time (played, all "
        "parts equal)."
    )
    return (
        f'<svg class="moving" role="img" aria-label="{told}" viewBox="0 0 {LEFT + WIDTH} {ROW * len(rows)}">'
        f"{''.join(boxes)}</svg>\n\n"
        f'<p><button type="button" class="pause">Stop the picture</button><small>{told}</small></p>'
    )
