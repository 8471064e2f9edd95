"""For instructors who want nbgrader's own tools: nbgrader reads this file where it is started, which is here.

    .venv/bin/python -m pip install --constraint constraints.txt --editable ".[nbgrader]"
    . .venv/bin/activate
    nbgrader generate_assignment lab01      # solutions/lab01 -> class/release/lab01
    cp ... class/submitted/ann/lab01/       # what ann handed in: lab01_split_a_model.ipynb
    nbgrader autograde lab01                # -> class/autograded, gradebook.db
    jupyter lab                             # menu Nbgrader, Formgrader

COURSE_DEVICES=simulated before a command keeps it off real GPUs, so that points are the same on every machine.

nbgrader runs what was handed in without a sandbox, and the student's code can reach what grades it. It sees the
visible tests only. `course grade lab01 class/submitted --out graded` reads the same folder, and has neither fault.
"""

c = get_config()  # noqa: F821  (nbgrader provides it)
c.CourseDirectory.course_id = "model-parallel-course"
# The sources are the course's own; all that nbgrader writes is in class/, and its database beside it.
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "class/release"
c.CourseDirectory.submitted_directory = "class/submitted"
c.CourseDirectory.autograded_directory = "class/autograded"
c.CourseDirectory.feedback_directory = "class/feedback"
c.CourseDirectory.source_with_tests_directory = "class/source_with_tests"
c.CourseDirectory.solution_directory = "class/solution"
# The same as for `course grade`. nbgrader's own 30 seconds have to hold for importing PyTorch on a busy machine.
c.Execute.timeout = 60
