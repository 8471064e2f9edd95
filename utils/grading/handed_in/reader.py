"""Reads the files of one submission, in a process of its own with limits: `python -I -S reader.py`.

It gets a line of JSON with the paths of files on its standard input and writes a line of JSON for each notebook, and
for each file that is none, with the reason. Zips are opened in memory. It imports the standard library alone, so that
it starts in 30 ms, and it runs nothing that it reads: the grader gets plain data, bounded in number and length.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys

try:
    import resource
except ImportError:  # not on Windows, where the counting has to do
    resource = None

LARGEST_FILE = 50_000_000  # bytes; a notebook with a film in its outputs is smaller
LARGEST_ZIPS = 200_000_000  # bytes that the zips of one submission may unpack to
DEEPEST_ZIP = 3  # zips within zips
MOST_IN_ZIPS = 2000  # files in the zips of one submission
MOST_FILES = 40  # notebooks, and files that are none, that are told of
NEWEST = 4  # version of the format
MOST_CELLS = 2000
MOST_PARTS = 300_000  # lists and objects in a notebook: each takes 60 to 200 bytes
MOST_VALUES = 3_000_000  # and all that stands in them
MOST_QUOTES = 4_000_000  # around its strings and in them
MOST_DIGITS = 400  # of a number: a float written out has 330
MOST_CODE = 2_000_000  # characters of code in one submission
LONGEST_TEXT = 20_000  # characters of a cell that is not code
MEMORY = 1_000_000_000  # bytes
SECONDS = 20  # of CPU
STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
APPLE_DOUBLE = b"\x00\x05\x16\x07"  # the beginning of a Mac's "._NAME"


class Unreadable(Exception):
    """A file that is no notebook, or cannot be read. The message says why, and what to do."""


class SubmissionReader:
    """What is left of the bounds for one submission, and where to tell."""

    def __init__(self, tell):
        self.tell = tell
        self.told = self.notebooks = self.code = self.unpacked = self.members = 0

    def file(self, path: str, name: str) -> None:
        """Read one file. Once there is a notebook, names that cannot be one are passed over."""
        if self.notebooks and not _may_be_notebook(name):
            return
        self._told(name, lambda: self._any(_content(path), name, 0))

    def _told(self, name: str, read) -> None:
        """Tell the result of reading one file."""
        if self.told >= MOST_FILES:
            raise SystemExit(self.tell({"name": name, "why": f"not read: more than {MOST_FILES} files", "meant": True}))
        try:
            found = read()
        except Unreadable as why:
            found = {"why": str(why)}
        except MemoryError:
            found = {"why": f"reading it takes more than {MEMORY / 1e9:g} GB of memory: save it without outputs"}
        except RecursionError:
            found = {"why": "it is no notebook: lists within lists, too deep"}
        if found is not None:
            self.told += 1
            self.tell({"name": name, "meant": ".ipynb" in name.lower(), **found})

    def _any(self, content: bytes, name: str, depth: int) -> dict | None:
        """A notebook, or None for a zip, whose files have been told of."""
        if not content.strip():
            raise Unreadable("the file is empty")
        if content.startswith(b"PK") and not name.lower().endswith((".docx", ".odt", ".xlsx", ".pptx")):
            return self._zip(content, name, depth)
        other = _other_kind(content, name)
        if other:
            raise Unreadable(f"{other}, and no notebook: the .ipynb is needed")
        return self._notebook(content)

    def _zip(self, content: bytes, name: str, depth: int) -> None:
        import io
        import zipfile

        if depth >= DEEPEST_ZIP:
            raise Unreadable(f"a zip within {DEEPEST_ZIP} zips is not opened: unpack it by hand")
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as opened:
                members = [one for one in opened.infolist() if not _is_left_out(one.filename, one.external_attr >> 16)]
                self.members += len(members)
                if self.members > MOST_IN_ZIPS:
                    raise Unreadable(
                        f"a zip with {self.members} files, and {MOST_IN_ZIPS} may be in one: unpack it by hand"
                    )
                if any(one.filename == "[Content_Types].xml" for one in members):
                    raise Unreadable("an Office document, and no notebook: the .ipynb is needed")
                before = self.told
                for one in sorted(members, key=lambda one: one.filename):
                    if _may_be_notebook(one.filename):
                        inner = f"{name}/{one.filename}".replace("\\", "/")
                        self._told(
                            inner, lambda one=one, inner=inner: self._any(self._member(opened, one), inner, depth + 1)
                        )
                if self.told == before:
                    inside = ", ".join(one.filename.rsplit("/", 1)[-1][:40] for one in members[:3]) or "nothing"
                    raise Unreadable(f"a zip without a notebook in it ({inside}): the .ipynb is needed")
        except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError, OSError) as error:
            reason = str(error) or type(error).__name__
            raise Unreadable(f"a zip that cannot be opened ({reason[:100]}): ask for it again") from None

    def _member(self, opened, member) -> bytes:
        import zlib

        if member.flag_bits & 1:
            raise Unreadable("it is protected by a password: ask for it without one")
        _bounded(member.file_size)
        self.unpacked += member.file_size
        if self.unpacked > LARGEST_ZIPS:
            raise Unreadable(f"the zips unpack to more than {LARGEST_ZIPS / 1e6:.0f} MB: unpack them by hand")
        try:
            with opened.open(member) as file:
                content = file.read(member.file_size + 1)  # never more than it says
        except (RuntimeError, zlib.error) as error:
            raise Unreadable(f"it cannot be unpacked ({str(error)[:100]}): ask for it again") from None
        if len(content) != member.file_size:
            raise Unreadable("it cannot be unpacked (another size than it says): ask for it again")
        return content

    def _notebook(self, content: bytes) -> dict:
        text = _text(content)
        del content
        _measure(text)
        try:
            data = json.loads(text.decode())  # of bytes it would guess the encoding, and not the one that was measured
        except ValueError as error:
            cut = " (cut off: was it uploaded whole?)" if "Unterminated" in str(error) or _ends_early(text) else ""
            raise Unreadable(f"it is not a notebook: not JSON, {str(error)[:80]}{cut}") from None
        del text
        cells = [_cell(one, number) for number, one in enumerate(_cells(data), 1)]
        self.code += sum(len(cell["source"]) for cell in cells)
        if self.code > MOST_CODE:
            raise Unreadable(f"its cells have more than {MOST_CODE / 1e6:g} million characters")
        self.notebooks += 1
        return {"cells": cells}


# --- one file ---------------------------------------------------------------------------------------------------


def _content(path: str) -> bytes:
    """A file's content: of an ordinary file, whatever stands there by now."""
    opened = os.open(os.fsencode(path), os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with open(opened, "rb") as file:
        about = os.fstat(opened)
        if not stat.S_ISREG(about.st_mode):
            raise Unreadable("it is no ordinary file")
        _bounded(about.st_size)
        return file.read(LARGEST_FILE)


def _bounded(size: int) -> None:
    if size > LARGEST_FILE:
        raise Unreadable(
            f"it is too large ({size / 1e6:.0f} MB, at most {LARGEST_FILE / 1e6:.0f}): save it without outputs"
        )


def _is_left_out(name: str, mode: int) -> bool:
    """Folders, links, names that lead elsewhere, and files that computers add on their own."""
    parts = name.replace("\\", "/").split("/")
    hidden = any(part.startswith(".") or part == "__MACOSX" for part in parts)  # "..", ".ipynb_checkpoints", "._NAME"
    return name.endswith("/") or hidden or stat.S_ISLNK(mode)


def _may_be_notebook(name: str) -> bool:
    """Whether to unpack it: a notebook under any of the names that browsers give it, or a zip."""
    ending = os.path.splitext(name)[1].lower()
    return ".ipynb" in name.lower() or ending in (".zip", ".json", ".txt", "")


KINDS = {
    b"%PDF": "a PDF",
    b"\xd0\xcf\x11\xe0": "an Office document",
    b"Rar!": "a RAR archive, which is not opened here",
    b"7z\xbc\xaf": "a 7z archive, which is not opened here",
    b"\x1f\x8b": "a gzip archive, which is not opened here",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    APPLE_DOUBLE: "what a Mac keeps beside a file",
}
ENDINGS = {
    ".py": "a Python script",
    ".docx": "a Word document",
    ".odt": "a text document",
    ".xlsx": "an Office document",
    ".pptx": "an Office document",
    ".html": "a web page",
    ".htm": "a web page",
    ".md": "a text",
}


def _other_kind(content: bytes, name: str) -> str:
    """What the file is, where it is clearly something else."""
    for beginning, kind in KINDS.items():
        if content.startswith(beginning):
            return kind
    start = content[:200].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:5].lower() in (b"<html", b"<!doc", b"<?xml"):
        return "a web page"
    return "" if start.startswith(b"{") else ENDINGS.get(os.path.splitext(name)[1].lower(), "")


def _text(content: bytes) -> bytes:
    """The text in UTF-8 without a mark at its beginning."""
    try:
        if content.startswith((b"\xff\xfe", b"\xfe\xff")):
            return content.decode("utf-16").encode()
        content.decode()
    except UnicodeError:
        raise Unreadable("it is not text in UTF-8, as a notebook is: save it again in Jupyter") from None
    return content.removeprefix(b"\xef\xbb\xbf")


def _measure(text: bytes) -> None:
    """Refuse text that would take much memory or time as data. Only the text around the strings counts."""
    if text.count(b'"') > MOST_QUOTES:
        raise Unreadable(f"it has more than {MOST_QUOTES // 2:,} strings in it: save it without outputs")
    around = STRING.sub(b"", text)
    parts = around.count(b"{") + around.count(b"[")
    if parts > MOST_PARTS:
        raise Unreadable(f"it has {parts:,} lists and objects in it, and a notebook at most {MOST_PARTS:,}")
    if around.count(b",") + parts > MOST_VALUES:
        raise Unreadable(f"it has more than {MOST_VALUES:,} values in it: save it without outputs")
    if re.search(rb"[0-9]{%d}" % MOST_DIGITS, around):
        raise Unreadable(f"it has a number of more than {MOST_DIGITS} digits in it")


def _ends_early(text: bytes) -> bool:
    return not text.rstrip().endswith(b"}")


def _cells(data: object) -> list:
    """The cells of a notebook of any version: before version 4 they were in worksheets."""
    versions = [data.get("nbformat"), data.get("nbformat_minor", 0)] if isinstance(data, dict) else []
    if not versions or any(type(version) is not int for version in versions):
        raise Unreadable("it is not a notebook: JSON without the version of a notebook's format")
    if not 1 <= versions[0] <= NEWEST:
        raise Unreadable(f"it is not a notebook: version {versions[0]} of the format is not known")
    found = data.get("cells")
    if versions[0] < 4 and isinstance(sheets := data.get("worksheets"), list):
        found = [cell for sheet in sheets for cell in (sheet.get("cells") or [] if isinstance(sheet, dict) else [])]
    if not isinstance(found, list):
        raise Unreadable("it is not a notebook: it has no list of cells")
    if len(found) > MOST_CELLS:
        raise Unreadable(f"it has {len(found):,} cells, and at most {MOST_CELLS:,} are read")
    return found


def _cell(cell: object, number: int) -> dict:
    about = cell if isinstance(cell, dict) else {}
    kind = about.get("cell_type")
    source = about.get("source", about.get("input", ""))
    source = "".join(source) if isinstance(source, list) and all(isinstance(line, str) for line in source) else source
    if not isinstance(kind, str) or not isinstance(source, str):
        raise Unreadable(f"it is not a notebook: cell {number} is no cell")
    told = about.get("metadata")
    told = told.get("nbgrader") if isinstance(told, dict) else {}
    told = told if isinstance(told, dict) else {}
    count, outputs = about.get("execution_count", about.get("prompt_number")), about.get("outputs")
    code = kind == "code"
    return {
        "kind": _plain(kind[:20]),
        "name": _plain(str(told.get("grade_id", ""))[:80]),
        "answer": bool(told.get("solution")),
        "marked": bool(told.get("grade")),
        "source": _plain(source if code else source[:LONGEST_TEXT]),
        "ran": code and (type(count) is int or bool(outputs)),
    }


def _plain(text: str) -> str:
    """Not every text of JSON is one that can be written: half a character cannot."""
    return text.encode(errors="replace").decode()


def _limit() -> None:
    if resource is None:
        return
    limits = {
        resource.RLIMIT_AS: MEMORY,
        resource.RLIMIT_CPU: SECONDS,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
    }
    for kind, limit in limits.items():
        hard = resource.getrlimit(kind)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        try:
            # An end by SIGXCPU, and not by SIGKILL, says that it was the time.
            resource.setrlimit(kind, (limit, hard if kind == resource.RLIMIT_CPU else limit))
        except (ValueError, OSError):  # not every system has each of them
            continue


def main() -> None:
    _limit()
    reader = SubmissionReader(lambda told: print(json.dumps(told), flush=True))
    for path, name in json.loads(sys.stdin.readline()):
        try:
            reader.file(path, name)
        except OSError as error:
            reader.tell({"name": name, "why": f"it cannot be read: {error.strerror}", "meant": True})


if __name__ == "__main__":
    main()
