"""An honest notebook with 45 MB of outputs, and metadata of 100,000 keys and 200 levels.

honest: everything
"""

# %% build
def build(notebook):
    import nbformat

    deep = {}
    for _ in range(200):
        deep = {"deeper": deep}
    notebook.metadata["deep"] = deep
    notebook.metadata["many"] = {f"key {n}": n for n in range(100_000)}
    notebook.cells[1].outputs = [nbformat.v4.new_output("stream", text="x" * 45_000_000)]
    return notebook
