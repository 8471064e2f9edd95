"""Hands in notebooks with odd names: a folder called .ipynb, two of one name, spaces, very long, and a hidden one."""

# %% class
def class_(folder, notebook):
    import nbformat

    honest = nbformat.writes(notebook)
    name = "lab01_split_a_model.ipynb"
    for student in ("mallory1", "mallory2", "mallory3", "mallory4"):
        (folder / student).mkdir()
    (folder / "mallory1" / name).mkdir()
    (folder / "mallory2" / f"{'x' * 200}.ipynb").write_text("{}")
    (folder / "mallory3" / f"a\n{name}").write_text("{}")
    (folder / "mallory3" / f"b\x1b[31m{name}").write_text("{}")
    (folder / "mallory4" / ".hidden.ipynb").write_text(honest)
    (folder / "mallory5.IPYNB\x07").write_text("{}")
    (folder / "mallory6.ipynb").write_text("")
    return folder, {"mallory": 0}, None
