"""A class in which each looks for what the one before it has left, and then leaves all that it can."""

# %% class
def class_(folder, notebook):
    for number in range(3):
        (folder / f"mallory{number}").mkdir()
        (folder / f"mallory{number}" / "lab01_split_a_model.ipynb").write_bytes(notebook_of("forked_looks_and_leaves"))
    return folder, {"mallory": 10}, 4
