"""A class in which some use up what all share, some are stopped, some signal upwards: with two jobs at once."""

# %% class
def class_(folder, notebook):
    names = ("forked_uses_up_what_all_share", "forked_signals_upwards", "forked_stops_within_a_look", "many_processes")
    for number, attack in enumerate(names):
        (folder / f"a{number}").mkdir()
        (folder / f"a{number}" / "lab01_split_a_model.ipynb").write_bytes(notebook_of(attack))
    return folder, {"a1": 10}, 5
