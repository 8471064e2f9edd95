"""A zip with names that lead elsewhere: .., absolute, backslashes, drives, links and files inside links, device names."""

# %% class
def class_(folder, notebook):
    import stat
    import warnings
    import zipfile

    import nbformat

    honest = nbformat.writes(notebook)
    name = "lab01_split_a_model.ipynb"
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file.writestr(f"innocent/{name}", honest)
        for member in (
            "../@MARK@-up",
            "../../@MARK@-up",
            "mallory/../../../@MARK@-up",
            "/tmp/@MARK@-absolute",
            "//tmp/@MARK@-absolute",
            "mallory\\..\\..\\@MARK@-back",
            "C:\\@MARK@-drive",
            "mallory/CON",
            "mallory/nul.ipynb",
            "mallory/" + "x" * 300 + ".ipynb",
            "mallory/" + "d/" * 500 + "deep.ipynb",
            f"mallory/{name}/inside",
            f"mallory/{name}",
            "mallory2",
            f"mallory2/{name}",
            "/",
            ".",
            "mallory3/./.././mallory3/x",
        ):
            file.writestr(member, "{}")
        for member, target in (("mallory4/link", "@CLASS@"), (f"mallory5/{name}", f"../innocent/{name}"), ("m6", "/tmp")):
            info = zipfile.ZipInfo(member)
            info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
            file.writestr(info, target)
        file.writestr("mallory4/link/@MARK@-through", "{}")
        file.writestr("m6/@MARK@-through", "{}")
        file.writestr(f"innocent/{name}", "{}")  # a second file of the same name
    return path, {"mallory": 0, "m6": 0}, None
