"""What cells of a lesson, and outputs, are marked with in their metadata."""

PREDICTED = "predicted"  # a cell's tag: its output answers what the lesson asks to predict, and is not stored
TASK = "task"  # a cell's tag: the learner writes here
FOLDED = "folded"  # an output's: it shows nothing until somebody unfolds it, so it may be stored
