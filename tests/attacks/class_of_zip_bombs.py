"""A zip whose members unpack to 40 MB of nothing each, lie about their sizes, overlap, are encrypted or broken."""

# %% class
def class_(folder, notebook):
    import zipfile

    import nbformat

    honest = nbformat.writes(notebook)
    name = "lab01_split_a_model.ipynb"
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(f"innocent/{name}", honest)
        for number in range(10):
            file.writestr(f"mallory1/{number}.ipynb", b"\0" * 40_000_000)
        file.writestr(f"mallory2/{name}", b"\0" * 60_000_000)
        file.writestr(f"mallory3/{name}", b"A" * 30_000_000)
        file.writestr(f"mallory4/{name}", b"{}" * 100)
        file.writestr(f"mallory5/{name}", b"{}" * 100)
        for number in range(20_000):
            file.writestr(f"mallory6/{number}", b"")
        with zipfile.ZipFile(folder.parent / "inner.zip", "w") as inner:
            inner.writestr(f"innocent/{name}", "{}")
        file.write(folder.parent / "inner.zip", "mallory7/lab.zip")
    data = bytearray(path.read_bytes())
    for member, offset, value in (
        (f"mallory3/{name}", 24, (100).to_bytes(4, "little")),  # the size, in the directory at the end
        (f"mallory4/{name}", 8, b"\x01\x00"),  # encrypted
        (f"mallory5/{name}", 10, b"\x63\x00"),  # a compression that does not exist
    ):
        at = data.rindex(member.encode()) - 46
        assert data[at : at + 4] == b"PK\x01\x02"
        data[at + offset : at + offset + len(value)] = value
    path.write_bytes(data)
    return path, {"mallory": 0}, None
