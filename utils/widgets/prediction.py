"""A question that the learner answers before running on, and the answer beside the result."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from utils.widgets.front_end import bundle, close, show, widgets_here

MANY = 6  # more answers than this are a list to unfold
_answers: dict[str, object] = {}
_boxes: dict[str, object] = {}  # the widget of each question, so that a cell that runs again leaves one


def predict(question: str, options: Sequence | None = None, *, key: str | None = None) -> Prediction:
    """A question to answer before running on. Make it the last line of its cell, to show it.

    `options` are the answers to choose from; without them a number or a few words can be written. The answer is kept
    for as long as the kernel runs, under `key` or the question itself. ValueError for a question or options that
    cannot be shown.
    """
    if not isinstance(question, str) or not question.strip():
        raise ValueError(f"predict({question!r}): the question is a text")
    if options is not None:
        if isinstance(options, str) or not isinstance(options, Sequence) or not options:
            raise ValueError(f"predict(..., {options!r}): options is a list of answers, or None for a free one")
        if len({str(option) for option in options}) < len(options):
            raise ValueError(f"predict(..., {list(options)!r}): two of these answers look the same")
    return Prediction(question.strip(), options, key or question.strip())


class Prediction:
    """A question and the learner's answer to it, None until there is one."""

    def __init__(self, question: str, options: Sequence | None, key: str):
        self.question = question
        self.options = None if options is None else list(options)
        self._key = key
        self._field = self._note = self._box = None
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
            raise ValueError(f"{value!r} is not one of the answers: {', '.join(map(repr, self.options))}")
        if value is None:
            _answers.pop(self._key, None)
        else:
            _answers[self._key] = value
        if self._box is not None:
            self._field.value = self._field_value()
            self._note.value = self._note_html()

    def _fits(self, value) -> bool:
        return value is None or self.options is None or value in self.options

    def compare(self, result, text: str | None = None) -> None:
        """Print the prediction beside what it is, and `text` on a line of its own."""
        predicted = "You made no prediction." if self.answer is None else f"You predicted: {_said(self.answer)}."
        print(f"{predicted} It is: {_said(result)}.")
        if text:
            print(text)

    def __repr__(self) -> str:
        lines = [self.question, *(f"  - {option}" for option in self.options or ())]
        example = "..." if self.options is None else repr(self.options[0])
        how = f"Your prediction: {_said(self.answer)}" if self.answer is not None else "No prediction yet"
        return "\n".join([*lines, f"{how}. Answer with: {self._name()}.answer = {example}"])

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
        show(bundle(self._box, repr(self)))

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
            return "<i>Answer before you run on.</i>"
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


def _number_or_text(text: str):
    text = text.strip()
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text or None


def _said(value) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text.rstrip(".")
