"""Marks its own cells as answers in words: a hundred of them, of a megabyte each, with pages and scripts in them.

honest: everything
"""

# %% build
def build(notebook):
    import nbformat

    about = {"nbgrader": {"solution": True, "grade": True, "grade_id": "<script>alert(1)</script>\ud800"}}
    for number in range(30):
        text = "<script>alert(1)</script><img src=http://localhost/x>" * 20_000
        cell = nbformat.v4.new_markdown_cell(text, id=f"b{number}", metadata=about)
        notebook.cells.append(cell)
    return notebook
