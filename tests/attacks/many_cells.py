"""Has 20,000 cells, each of which is quick, and 30 cells that take almost as long as a cell may.

honest: everything
may lose: everything
within: 12
seconds: 60
"""

# %% build
def build(notebook):
    cells = notebook.cells
    slow = [type(cells[1])(cells[1], id=f"s{n}", source="import time; time.sleep(5)") for n in range(30)]
    quick = [type(cells[1])(cells[1], id=f"q{n}", source="pass") for n in range(20_000)]
    notebook.cells = cells + slow + quick
    return notebook
