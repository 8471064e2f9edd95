"""A zip as Moodle and Canvas make it, with file names that imitate those of other students.

Each student gets a row, and no student another one's points.
"""

# %% class
def class_(folder, notebook):
    import zipfile

    import nbformat

    honest = nbformat.writes(notebook)
    path = folder.with_suffix(".zip")
    tail = "assignsubmission_file"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(f"innocent_1_{tail}/lab01_split_a_model.ipynb", honest)
        file.writestr(f"mallory_2_{tail}/innocent_1_{tail}_lab01_split_a_model.ipynb", "{}")
        file.writestr(f"mallory_2_{tail}/innocent_1_{tail}/lab01_split_a_model.ipynb", "{}")
        file.writestr(f"mallory3_3_{tail}/../innocent_1_{tail}/lab01_split_a_model.ipynb", "{}")
        file.writestr(f"mallory4_4_{tail}_innocent_1_{tail}_lab01_split_a_model.ipynb", "{}")
    return path, {"mallory": 0}, None
