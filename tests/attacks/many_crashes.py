"""Has 40 cells that end the process, so that the notebook is replayed 40 times, each time a little further.

honest: everything
may lose: everything
within: 12
seconds: 60
"""

# %% build
def build(notebook):
    cells = notebook.cells
    crash = [type(cells[1])(cells[1], id=f"c{n}", source="import os; os._exit(1)") for n in range(40)]
    notebook.cells = cells + crash
    return notebook
