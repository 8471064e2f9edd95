"""Hands in under names with line ends, commas, quotes, formulas, escape sequences, path separators and no text at all."""

# %% class
def class_(folder, notebook):
    import os

    names = [
        "new\nline,10,10",
        "x\ninnocent     10 ∕ 10  ok",
        "=HYPERLINK(1)",
        "+1",
        "-2+3",
        "@SUM(A1)",
        "\t=1+1",
        "\r=1+1",
        'comma,quote"',
        "a%2Fb",
        "a\\..\\b",
        "CON",
        "x" * 240,
        "\x1b[31mred\x1b]0;owned\x07",
        "\u202egnp",
        "\u2028line",
        "<script>alert(1)<script>",
        "&amp;",
        "...",
        "~",
        "$(id)",
        "-h",
        "--no-sandbox",
        "%s%s%n",
        " ",
    ]
    for name in names:
        (folder / name).mkdir()
        (folder / name / "lab01_split_a_model.ipynb").write_text('{"cells": [')
    raw = os.path.join(os.fsencode(folder), b"no-text-\xff\xfe")
    os.mkdir(raw)
    return folder, {"": 0}, len(names) + 1
