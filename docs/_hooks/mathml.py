"""Formulas as MathML, which browsers draw themselves: the site loads no script and no font for them."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\s*'
    r"(?:\\\((?P<inline>.*?)\\\)|\\\[(?P<display>.*?)\\\])"
    r"\s*</(?P=tag)>",
    re.DOTALL,
)
_UNREAD = re.compile(r"<mi>\s*\\[^<]*</mi>|<mi>&(?!#?\w+;)[^<]*</mi>|<merror")

_TIGHT = re.compile(r'<mo((?: stretchy="false")?)>(&#x0007C;|&#x0002F;|&#x02016;)</mo>')
"""Bars and slashes, around which TeX leaves no room and browsers do."""


class FormulaError(ValueError):
    """A formula that the converter does not understand."""


def mathml(formula: str, display: bool = False) -> str:
    r"""A formula in TeX as MathML.

    The converter knows neither `aligned` nor `\operatorname*` nor `\arg`; they are written as what it knows.
    """
    text = formula.strip()
    text = re.sub(r"\\(begin|end)\{(aligned|split|gathered)\}", r"\\\1{align*}", text)
    text = re.sub(r"\\operatorname\*?\{\s*arg\s*\\[,;!]?\s*(min|max)\s*\}", r"\\operatorname{arg\1}", text)
    text = text.replace("\\operatorname*", "\\operatorname")
    text = re.sub(r"\\arg\s*\\(min|max)(?![a-zA-Z])", r"\\operatorname{arg\1}", text)
    try:
        made = convert(text, display="block" if display else "inline")
    except Exception as error:
        raise FormulaError(f"{formula!r}: {type(error).__name__}: {error}") from error
    unread = _UNREAD.search(made)
    if unread:
        raise FormulaError(f"{formula!r}: the converter does not know {html.unescape(unread[0])}")
    made = _TIGHT.sub(r'<mo lspace="0" rspace="0"\1>\2</mo>', made)
    made = made.replace("<mo>argmin</mo>", "<mo>arg min</mo>").replace("<mo>argmax</mo>", "<mo>arg max</mo>")
    return made if not display else f'<div class="formula">{made}</div>'


def replace_formulas(page: str) -> tuple[str, list[str]]:
    """The HTML of a page with its formulas as MathML, and what is wrong with those that stay as they are."""
    wrong = []

    def drawn(found: re.Match) -> str:
        display = found["display"] is not None
        formula = html.unescape(found["display"] if display else found["inline"])
        try:
            return mathml(formula, display)
        except FormulaError as error:
            wrong.append(str(error))
            return found[0]

    return _FORMULA.sub(drawn, page), wrong
