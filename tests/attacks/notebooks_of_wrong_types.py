"""Twenty notebooks in which nothing has the type that it should have. None of them is worth anything.

honest: none
"""

# %% several
def several(notebook):
    import json

    import nbformat

    good = json.loads(nbformat.writes(notebook))

    def changed(**parts):
        return json.dumps(good | parts).encode()

    def cell(**parts):
        code = {"cell_type": "code", "id": "x", "metadata": {}, "source": "1 / 0", "outputs": [], "execution_count": None}
        return changed(cells=[code | parts])

    def nested(depth, inner=""):
        return inner if depth == 0 else [nested(depth - 1, inner)]

    return {
        "cells is a dict": changed(cells={"0": 1}),
        "cells is text": changed(cells="import os"),
        "cells is null": changed(cells=None),
        "cells of cells": changed(cells=[good["cells"]]),
        "a cell is a number": changed(cells=[3]),
        "source is a number": cell(source=3),
        "source is a dict": cell(source={"a": "b"}),
        "source is nested": cell(source=nested(50, "1 / 0")),
        "source is a list of numbers": cell(source=[1, 2, 3]),
        "source is null": cell(source=None),
        "cell_type is a list": cell(cell_type=["code"]),
        "metadata is a list": cell(metadata=[1]),
        "metadata.nbgrader is text": cell(metadata={"nbgrader": "yes"}),
        "metadata.nbgrader is a list": cell(metadata={"nbgrader": [[1, 2], [3]]}),
        "nbformat is text": changed(nbformat="four"),
        "nbformat is 1e400": json.dumps(good).replace('"nbformat": 4', '"nbformat": 1e400').encode(),
        "nbformat is 99": changed(nbformat=99),
        "nbformat is -1": changed(nbformat=-1),
        "nbformat is missing": json.dumps({"cells": []}).encode(),
        "nothing but brackets": b'{"cells":' + b"[" * 500_000,
        "a long number": b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [' + b"9" * 5000 + b"]}",
        "half a character": changed(cells=[{"cell_type": "code", "source": "\ud800", "metadata": {}, "outputs": []}]),
        "not a number": b'{"nbformat": NaN, "cells": []}',
        "the same key twice": b'{"nbformat": 4, "nbformat": "x", "cells": [], "cells": 3, "metadata": {}}',
        "null bytes": b"\0" * 1000,
        "utf-16 unsaid": json.dumps(good).encode("utf-16-le"),
        "a byte order mark": b"\xef\xbb\xbf{}",
        "a pickle": b"\x80\x04cos\nsystem\n(S'true'\ntR.",
        "a gzip": b"\x1f\x8b\x08\0",
    }
