"""Hands in links: to another student's notebook, to the model solution, to devices and to itself; and pipes and sockets."""

# %% class
def class_(folder, notebook):
    import os
    import socket

    name = "lab01_split_a_model.ipynb"
    victim = folder / "innocent" / name
    for student in ("mallory1", "mallory2", "mallory3", "mallory4", "mallory5", "mallory6"):
        (folder / student).mkdir()
    (folder / "mallory1" / name).symlink_to(victim)
    (folder / "mallory2" / name).symlink_to("@ROOT@/solutions/lab01/lab01_split_a_model.ipynb")
    (folder / "mallory3" / name).symlink_to("/dev/zero")
    os.mkfifo(folder / "mallory4" / name)
    (folder / "mallory5" / "deeper").symlink_to(folder / "mallory5")
    (folder / "mallory5" / name).symlink_to(name)
    (folder / "mallory6" / "inside").symlink_to(folder / "innocent")
    (folder / "mallory7").symlink_to(folder / "innocent")
    (folder / "mallory8.ipynb").symlink_to(victim)
    os.mkfifo(folder / "mallory9.ipynb")
    line = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(folder)
    line.bind("mallory10.ipynb")
    os.chdir(here)
    return folder, {"mallory": 0}, None
