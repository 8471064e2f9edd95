"""Questions to answer before running, a live view of GPUs, explorers of splits and layouts, and a game of schedules.

    question = predict("Which device waits longer?", ["device0", "device1"], why="05/1")
    question.compare(waits_longer)     # after the run: predicted, measured, and why; predictions() has all of them
    with GpuMonitor([device0, device1]) as m, live(m) as view: ...
    explore_split(model, x)
    explore_layouts(utils.planner.llama(layers=32))
    schedule_game()

Where there is no front end for widgets (no ipywidgets, plain Python, a grader, nbval) the same shows as text and
pictures. COURSE_WIDGETS=0 in the environment asks for that, COURSE_WIDGETS=1 for widgets. Only what ipywidgets 7.7
and 8 both have is used, and anywidget for the game.
"""

from utils.widgets.explorer import explore_split
from utils.widgets.game import schedule_game
from utils.widgets.layout_explorer import explore_layouts
from utils.widgets.live_view import live
from utils.widgets.outcomes import outcome
from utils.widgets.prediction import predict, predictions

__all__ = ["explore_layouts", "explore_split", "live", "outcome", "predict", "predictions", "schedule_game"]
