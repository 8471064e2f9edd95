"""What the pages for students and instructors share: text of strangers made harmless, tables, pictures, the page.

A page is one file. It runs no script and loads nothing: its own policy forbids both.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape

from utils.grading.tell.text import LONGEST, clean, line
from utils.plots import Picture

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

STYLE = """
:root{color-scheme:light dark;--ground:#fff;--card:#fff;--line:#d5d9e0;--ink:#1b2330;--soft:#566072;--code:#f3f5f8;
--good:#14713f;--good-ground:#e3f4ea;--bad:#a63a12;--bad-ground:#fdeee4;--blue:#0b5f9e;--bar:#0072b2;--track:#e4e8ee}
@media (prefers-color-scheme:dark){:root{--ground:#12161d;--card:#1a2029;--line:#36404f;--ink:#e8ecf2;--soft:#a5b0c0;
--code:#232b36;--good:#6fd49b;--good-ground:#16352400;--bad:#ffb085;--bad-ground:#3a251a;--blue:#7cc0f5;--bar:#56b4e9;
--track:#323b48}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0 auto;padding:1.5rem 1rem 3rem;background:var(--ground);color:var(--ink);overflow-wrap:anywhere;
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:1.5rem;line-height:1.25;margin:0}h2{font-size:1.2rem;margin:2.2rem 0 .6rem}h3{font-size:1rem;margin:0}
p{margin:.5rem 0}a{color:var(--blue)}
.soft{color:var(--soft)}.small{font-size:.875rem}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:.9rem 1rem;margin:.9rem 0}
.notice{border-left:5px solid var(--bad);background:var(--bad-ground);border-radius:6px;padding:.6rem .9rem;
margin:1rem 0}
pre{margin:.35rem 0;padding:.55rem .7rem;background:var(--code);border-radius:6px;white-space:pre-wrap;overflow:hidden;
font:.84rem/1.45 ui-monospace,"SFMono-Regular",Menlo,Consolas,"DejaVu Sans Mono",monospace}
figure{margin:.8rem 0 0}
img{display:block;width:100%;max-width:820px;height:auto;background:#fff;border-radius:6px;border:1px solid var(--line)}
.picture{overflow-x:auto}figure img{min-width:35rem}
figcaption{font-size:.875rem;color:var(--soft);margin-top:.3rem}
summary{cursor:pointer;color:var(--blue)}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;vertical-align:top;padding:.35rem .6rem;border-bottom:1px solid var(--line)}
th{color:var(--soft);font-weight:600;white-space:nowrap;overflow-wrap:normal}
td.number,th.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap;overflow-wrap:normal}
.scroll{overflow-x:auto;margin-top:.8rem}
@media print{:root{color-scheme:light;--ground:#fff;--card:#fff;--line:#bbb;--ink:#000;--soft:#444;--code:#f3f3f3;
--good:#14713f;--good-ground:#fff;--bad:#a63a12;--bad-ground:#fff;--blue:#000;--bar:#0072b2;--track:#ddd}
figure img{min-width:0}body{padding:0;font-size:11pt;max-width:none!important}
.card,figure,tr{break-inside:avoid}.scroll{overflow:visible}}
"""


def html(text: object, longest: int = LONGEST) -> str:
    """Text of a stranger as HTML."""
    return escape(clean(text, longest))


def name(text: object) -> str:
    """A student's name as HTML: in a direction of its own, so that it leaves the text around it alone."""
    return f"<bdi>{escape(line(text, 80)) or '(no name)'}</bdi>"


def figure(picture: Picture, caption: str) -> str:
    """A picture inside the page, with its alternative text and a line below."""
    data = base64.b64encode(picture.png()).decode()
    return (
        f'<figure><div class="picture"><img alt="{html(picture.alt, 2000)}" src="data:image/png;base64,{data}"></div>'
        f"<figcaption>{html(caption, 500)}</figcaption></figure>"
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[str] = ()) -> str:
    """A table whose cells are HTML already. Columns in `numbers` are set as numbers; `columns` are plain text."""
    kind = ["number" if column in numbers else "" for column in columns]
    attribute = [f' class="{one}"' if one else "" for one in kind]
    head = "".join(f"<th{a}>{escape(column)}</th>" for column, a in zip(columns, attribute, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{a}>{cell}</td>" for cell, a in zip(row, attribute, strict=True)) + "</tr>\n"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>'


def page(title: str, body: str, width: str, style: str = "") -> str:
    """The whole file. `body` is HTML, `title` plain text, `width` how wide the text may be."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(line(title))}</title>\n<style>{STYLE}body{{max-width:{width}}}{style}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )
