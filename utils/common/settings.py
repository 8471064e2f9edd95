"""The environment variables that the course reads and sets, and who sets them."""

DEVICES = "COURSE_DEVICES"  # the reader: which devices to use (utils.observe.devices)
WIDGETS = "COURSE_WIDGETS"  # the reader: 0 for pictures in place of widgets, 1 for widgets
GRADING = "COURSE_GRADING"  # the grader: it runs this notebook, and what is shown is not read
HAND_IN = "COURSE_HAND_IN"  # the hub of a class: where `hand_in` sends a notebook
PROGRESS = "COURSE_PROGRESS"  # the hub of a class: 1 where its instructor's page shows what `check` says
FORK_SERVER = "COURSE_FORK_SERVER"  # the hub of a class: where a process listens that forks kernels and ranks
PYTHON = "PYTHON_EXEC"  # the hub of a class: the Python that torchrun starts its workers by. It is torchrun's own name
# COURSE_TORCH and COURSE_TORCH_INDEX, the reader: which build of PyTorch is set up (tools/bootstrap.py)
