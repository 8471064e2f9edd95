"""A class in which one ends the grader's processes, one takes all memory, one leaves daemons: with two jobs at once."""

# %% class
def class_(folder, notebook):
    for number, attack in enumerate(("kills_everybody", "takes_all_memory", "daemons", "crashes_in_a_call")):
        (folder / f"mallory{number}").mkdir()
        (folder / f"mallory{number}" / "lab01_split_a_model.ipynb").write_bytes(notebook_of(attack))
    return folder, {"innocent": 10}, 5
