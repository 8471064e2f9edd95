"""A lab's exercises and their points, read without loading the lab: its facts need PyTorch, which takes seconds."""

from __future__ import annotations

import ast

from utils.exercises.facts import Lab, facts_path


def lab_outline(name: str) -> Lab:
    """The lab called `name` without its facts and hints, as labs/NAME/facts.py declares it at its top level.

    Raises FileNotFoundError where this copy of the course has no such file.
    """
    text = facts_path(name).read_text(encoding="utf-8")
    lab = Lab(name, name)
    for node in ast.parse(text).body:
        call = node.value if isinstance(node, ast.Assign) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "exercise":
            continue
        about = {keyword.arg: keyword.value for keyword in call.keywords}
        exercise, title = ast.literal_eval(call.args[0]), ast.literal_eval(about["title"])
        given = {name: ast.literal_eval(about[name]) for name in ("points", "star", "parts") if name in about}
        lab.exercise(exercise, title=title, hints=[], **given)
    return lab
