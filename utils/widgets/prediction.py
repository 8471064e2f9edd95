"""A question that the learner answers before running on; the result beside the answer, and then why it is so.

    question = predict("x is on the CPU. What does layer1(x) do?", ["works", "raises"], why="01/1")
    layer1(x)                       # the next cell
    question.compare(outcome())     # the cell after it: it says what was predicted, what it is, and why
    predictions()                   # at the end of a lesson: all of them, the surprises first

The explanation is kept out of the notebook, in utils/widgets/explained/01.md, because who sees it does not predict.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from utils.common.cell_tags import FOLDED
from utils.widgets.explanations import explanation
from utils.widgets.front_end import close, in_kernel, mimebundle, show, widgets_here
from utils.widgets.outcomes import note_outcomes

MANY = 6  # more answers than this are a list to unfold
_answers: dict[str, object] = {}
_compared: dict[str, Prediction] = {}  # each question whose result is known
_boxes: dict[str, object] = {}  # the widget of each question, so that a cell that runs again leaves one


def predict(question: str, options: Sequence | None = None, *, why: str = "", key: str | None = None) -> Prediction:
    """A question to answer before running on. Make it the last line of its cell, to show it.

    `options` are the answers to choose from; without them a number or a few words can be written. `why` names the
    explanation that `compare` shows: "01/1" is the section `## 1` of utils/widgets/explained/01.md. (The name stands in
    the reader's cell, so it is one that tells nothing.) The answer is kept for as long as the kernel runs, under `key`,
    `why` or the question itself. ValueError for a question or options that cannot be shown, and for an explanation
    that is not there.
    """
    note_outcomes()
    if not isinstance(question, str) or not question.strip():
        raise ValueError(f"predict({question!r}): the question must be text")
    if options is not None:
        if isinstance(options, str) or not isinstance(options, Sequence) or not options:
            raise ValueError(f"predict(..., {options!r}): options must be a list of answers, or None for a free answer")
        if len({str(option) for option in options}) < len(options):
            raise ValueError(f"predict(..., {list(options)!r}): two of these answers look the same")
    return Prediction(question.strip(), options, key or why or question.strip(), explanation(why) if why else "")


class Prediction:
    """A question and the learner's answer to it, None until there is one."""

    def __init__(self, question: str, options: Sequence | None, key: str, why: str = ""):
        self.question = question
        self.result = None
        self.came_true = False
        self._why = why
        self.options = None if options is None else list(options)
        self._key = key
        self._field: Any = None  # a widget when it is shown first, as the others
        self._note: Any = None
        self._box: Any = None
        if not self._fits(_answers.get(key)):  # the question has changed since
            del _answers[key]

    @property
    def answer(self):
        """What was chosen or written, a number where it is one; None until then."""
        return _answers.get(self._key)

    @answer.setter
    def answer(self, value) -> None:
        if isinstance(value, str) and self.options is None:
            value = _number_or_text(value)
        if not self._fits(value):
            raise ValueError(f"{value!r} is not one of the answers: {', '.join(map(repr, self.options or ()))}")
        if value is None:
            _answers.pop(self._key, None)
        else:
            _answers[self._key] = value
        if self._box is not None:
            self._field.value = self._field_value()
            self._note.value = self._note_html()

    def _fits(self, value) -> bool:
        return value is None or self.options is None or value in self.options

    def compare(self, result, text: str | None = None, *, within: float = 0.0) -> None:
        """Show the prediction beside what it is, `text` on a line of its own, and the explanation.

        A number came true if it is not further from `result` than the share `within` of it.
        """
        self.result, self.came_true = result, _same(self.answer, result, within)
        _compared[self._key] = self
        predicted = "You made no prediction." if self.answer is None else f"You predicted: {_said(self.answer)}."
        verdict = self._verdict(within) if within and self.answer not in (None, result) else ""
        words = [part for part in (f"{predicted} Result: {_said(result)}.{verdict}", text, self._why) if part]
        if not in_kernel():
            print("\n".join(words))
            return
        words = [part.replace("\n", "  \n") if part is text else part for part in words]
        shown = "\n\n".join(words)
        folded = widgets_here() is None
        if folded:
            shown = f"<details><summary>Open this after you have predicted</summary>\n\n{shown}\n\n</details>"
        show({"text/plain": "\n".join(words), "text/markdown": shown}, {FOLDED: True} if folded else None)

    def _verdict(self, within: float) -> str:
        return f" {'Close enough' if self.came_true else 'Not close enough'}: within {within:.0%} counts as correct."

    def __repr__(self) -> str:
        lines = [self.question, *(f"  - {option}" for option in self.options or ())]
        write = f"{self._name()}.answer = ..."
        if self.answer is None:
            how = f"No prediction yet. Run this cell to answer, or write: {write}"
        else:
            how = f"Your prediction: {_said(self.answer)}. To change it, write: {write}"
        return "\n".join([*lines, how])

    def _name(self) -> str:
        """What the notebook calls this question, as far as it has given it a name."""
        try:
            from IPython import get_ipython
        except ImportError:
            return "q"
        names = getattr(get_ipython(), "user_ns", {})
        return next((name for name, value in names.items() if value is self and not name.startswith("_")), "q")

    def _ipython_display_(self) -> None:
        widgets = widgets_here()
        if widgets is None:
            print(self)
            return
        if self._box is None:
            self._make(widgets)
        show(mimebundle(self._box, repr(self)))

    def _make(self, widgets) -> None:
        if self._key in _boxes:
            close(_boxes.pop(self._key))
        head = widgets.HTML(f"<div style='line-height:1.5'><b>Predict.</b> {escape(self.question)}</div>")
        wide = widgets.Layout(width="auto")
        if self.options is None:
            self._field = widgets.Text(placeholder="a number or a few words", layout=widgets.Layout(width="22em"))
        else:
            kind = widgets.RadioButtons if len(self.options) <= MANY else widgets.Dropdown
            answers = [(str(option), number) for number, option in enumerate(self.options)]
            self._field = kind(options=answers, value=None, layout=wide)
        self._field.value = self._field_value()
        self._note = widgets.HTML(self._note_html())
        self._field.observe(self._chosen, "value")
        self._box = _boxes[self._key] = widgets.VBox([head, self._field, self._note])

    def _field_value(self):
        if self.options is None:
            return "" if self.answer is None else str(self.answer)
        return None if self.answer is None else self.options.index(self.answer)

    def _note_html(self) -> str:
        if self.answer is None:
            return "<i>Answer before you run the next cell.</i>"
        return f"Your prediction: <b>{escape(_said(self.answer))}</b>"

    def _chosen(self, change) -> None:
        # Not through `answer`: a field that is written back while somebody types loses what was typed since.
        new = change["new"]
        value = _number_or_text(new) if self.options is None else None if new is None else self.options[new]
        if value is None:
            _answers.pop(self._key, None)
        else:
            _answers[self._key] = value
        self._note.value = self._note_html()


class Predictions:
    """What was predicted in a lesson and how it turned out."""

    def __init__(self, questions: Sequence[Prediction]):
        self.surprises = [q for q in questions if q.answer is not None and not q.came_true]
        self.others = [q for q in questions if q not in self.surprises]

    @property
    def headline(self) -> str:
        made = [q for q in (*self.surprises, *self.others) if q.answer is not None]
        if not made:
            return "You made no predictions. The next lesson is more fun if you make some."
        kept = f"{len(made) - len(self.surprises)} of your {len(made)} predictions came true."
        return f"{kept} The surprises come first:" if self.surprises else kept

    def rows(self) -> list[tuple[str, str, str]]:
        """(question, predicted, what it is), the surprises first."""
        questions = (*self.surprises, *self.others)
        return [(q.question, "" if q.answer is None else _said(q.answer), _said(q.result)) for q in questions]

    def __repr__(self) -> str:
        rows = [
            f"  {question}\n    predicted: {yours or 'nothing'}; result: {it}" for question, yours, it in self.rows()
        ]
        return "\n".join([self.headline, *rows])

    def _repr_html_(self) -> str:
        rows = "".join(
            "<tr>" + "".join(f"<td style='text-align:left'>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self.rows()
        )
        heads = "".join(
            f"<th style='text-align:left'>{head}</th>" for head in ("question", "your prediction", "result")
        )
        return f"<p>{escape(self.headline)}</p><table><tr>{heads}</tr>{rows}</table>"


def predictions() -> Predictions:
    """All questions of this lesson whose result is known, what surprised first."""
    return Predictions(list(_compared.values()))


def _same(answer, result, within: float) -> bool:
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (answer, result))
    if numbers:
        return abs(answer - result) <= within * abs(result)
    return answer is not None and _said(answer) == _said(result)


def _number_or_text(text: str):
    text = text.strip()
    for kind in (int, float):
        try:
            return kind(text.rstrip(" %"))  # "6%", where a question asks for how many
        except ValueError:
            pass
    return text or None


def _said(value) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text.rstrip(".")
