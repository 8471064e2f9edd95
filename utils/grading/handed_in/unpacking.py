"""Unpacks the zip that a platform gives, within bounds: nothing leads elsewhere, and nothing is followed."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from utils.common.errors import Problem
from utils.grading.handed_in.platforms import LEFT_OUT, METADATA, MOODLE
from utils.grading.handed_in.reader import LARGEST_FILE

LARGEST_CLASS = 4_000_000_000  # bytes that a zip may unpack to
MOST_FILES = 50_000  # in it
LAB = re.compile(r"lab\d+")
LONGEST_NAME = 230  # bytes of a file's name


def unpack(archive: Path, folder: Path) -> dict[Path, str]:
    """Unpack the files of a zip. Links and names that lead elsewhere are left out.

    A file that is larger than a notebook may be has its size there, and nothing else, so that it can be told. One that
    cannot be unpacked is there and empty: returns the reasons. Raises Problem for a zip that is too large, or is none.
    """
    failed: dict[Path, str] = {}
    try:
        with zipfile.ZipFile(archive) as opened:
            members = opened.infolist()
            if len(members) > MOST_FILES:
                raise Problem(f"{archive} has {len(members)} files in it, more than {MOST_FILES}.")
            if sum(one.file_size for one in members if one.file_size <= LARGEST_FILE) > LARGEST_CLASS:
                raise Problem(f"{archive} unpacks to more than {LARGEST_CLASS / 1e9:g} GB.")
            for member in members:
                target = _place(member, folder)
                if target is not None and (reason := _unpack_one(opened, member, target)):
                    target.touch()
                    failed[target] = reason
    except zipfile.BadZipFile:
        raise Problem(f"{archive} is not a zip file that can be read.") from None
    except OSError as error:
        raise Problem(f"{archive} cannot be unpacked: {error.strerror or error}") from None
    return failed


def inner(folder: Path) -> Path:
    """The folder with the submissions: some platforms put one more around it."""
    entries = [entry for entry in folder.iterdir() if not entry.name.startswith(LEFT_OUT)]
    # A folder of Moodle's is a student's own, also where only one has handed in.
    if len(entries) == 1 and entries[0].is_dir() and not MOODLE.match(entries[0].name):
        inside = list(entries[0].iterdir())
        if any(LAB.fullmatch(entry.name) for entry in inside):  # nbgrader's folder of one student
            return folder
        several = any(entry.is_dir() for entry in inside) or sum(entry.suffix == ".ipynb" for entry in inside) > 1
        if several or any(entry.name == METADATA for entry in inside):
            return entries[0]
    return folder


def _place(member: zipfile.ZipInfo, folder: Path) -> Path | None:
    """Where a file of a zip goes; None where it is left out."""
    parts = PurePosixPath(_name(member).replace("\\", "/")).parts
    odd = not parts or ".." in parts or re.match("/|[A-Za-z]:", parts[0]) or "\x00" in member.filename
    if not member.filename or member.is_dir() or odd or stat.S_ISLNK(member.external_attr >> 16):
        return None
    target = folder.joinpath(*map(_short, parts))
    if any(parent.is_file() for parent in target.parents):
        return None
    number = 1
    while target.exists():  # two files of one name: both stay
        number += 1
        target = target.with_name(f"{Path(_short(parts[-1])).stem}-{number}{target.suffix}")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def _unpack_one(opened: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> str:
    """Unpack one file; returns why it cannot be, or nothing."""
    if member.file_size > LARGEST_FILE:
        target.touch()
        os.truncate(target, member.file_size)
        return ""
    if member.flag_bits & 1:
        return "protected by a password: unpack the zip, and name the folder"
    try:
        with opened.open(member) as file:
            content = file.read(member.file_size + 1)  # never more than it says
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError, zlib.error) as error:
        return f"damaged in the zip ({str(error)[:80]}): download it again"
    if len(content) != member.file_size:
        return "damaged in the zip (not of the size that it says): download it again"
    target.write_bytes(content)
    return ""


def _name(member: zipfile.ZipInfo) -> str:
    """The name of a file in a zip. Macs write UTF-8 and do not say so; Python then takes it for an old code page."""
    if member.flag_bits & 0x800:
        return member.filename
    try:
        return member.filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        return member.filename


def _short(name: str) -> str:
    """A name that every file system takes. Its beginning stays, which says whose the file is, and its ending."""
    content = name.encode(errors="replace")
    if len(content) <= LONGEST_NAME:
        return name
    short = content[: LONGEST_NAME - 60].decode(errors="ignore"), content[-40:].decode(errors="ignore")
    return f"{short[0]}~{hashlib.sha256(content).hexdigest()[:12]}~{short[1]}"
