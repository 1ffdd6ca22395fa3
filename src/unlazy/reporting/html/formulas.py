"""Formulas in plain sentences, such as n SNR^2 = 4 or |mu| ~ d^(1/4), as MathML that browsers draw themselves.

The sentences of studies are written for the terminal. Here a formula is found by what it is made of: single letters,
names of Greek letters and functions, numbers, brackets, and what joins them. What does not read as one stays text.
"""

from __future__ import annotations

import html
import re

GREEK = {
    name: chr(code)
    for first, names in (
        (0x3B1, "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho"),
        (0x3C3, "sigma tau upsilon phi chi psi omega"),
        (0x393, "Gamma Delta"),
        (0x398, "Theta"),
        (0x39B, "Lambda"),
        (0x3A0, "Pi"),
        (0x3A3, "Sigma"),
        (0x3A6, "Phi"),
        (0x3A8, "Psi Omega"),
    )
    for code, name in enumerate(names.split(), first)
}
FUNCTIONS = {"log", "exp", "sqrt", "max", "min", "tanh", "erf", "cos", "floor", "sum", "Var"}
NAMES = {"SNR", "He"}
PAIRS = {"nm", "dt", "dL"}
"""Products of two letters that stand together."""
RELATIONS = {"<=": "≤", ">=": "≥", "<<": "≪", "<-": "←", "=": "=", "<": "&lt;", ">": "&gt;", "~": "∼"}
ARTICLES = {"a", "A", "I"}
"""Letters that are words, unless something beside them says otherwise."""

_TOKEN = re.compile(
    r"\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![A-Za-z]{3})|[A-Za-z]+(?:'[a-z]+|')?|\s+|<=|>=|<<|<-|\.\.\.|.", re.DOTALL
)
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(?:e([-+]?\d+))?")


def marked(text: object) -> str:
    """Text as HTML: formulas as MathML, with their plain form for whoever searches or copies; all else escaped."""
    tokens = _TOKEN.findall(re.sub(r"(?<=\d) x (?=\d)", " × ", str(text)))
    pieces, place = [], 0
    while place < len(tokens):
        found = _Reader(tokens).formula(place)
        if found is None:
            pieces.append(html.escape(tokens[place]))
            place += 1
        else:
            made, end = found
            written = html.escape("".join(tokens[place:end]))
            pieces.append(
                f"<math><semantics><mrow>{made}</mrow>"
                f'<annotation encoding="text/plain">{written}</annotation></semantics></math>'
            )
            place = end
    return "".join(pieces)


class _Reader:
    """Reads a formula from a place on: every method gives MathML and the place behind it, or None."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.symbols = 0
        """How many letters, powers of ten or such were read: a number alone is no formula."""
        self.raised: set[str] = set()

    def at(self, place: int) -> str:
        return self.tokens[place] if 0 <= place < len(self.tokens) else ""

    def behind_space(self, place: int) -> int:
        return place + self.at(place).isspace()

    def formula(self, place: int) -> tuple[str, int] | None:
        # a formula begins like a word
        if self.at(place - 1) not in ("", "(", "[", '"') and not self.at(place - 1).isspace():
            return None
        if self.at(place) in ARTICLES and not self._is_symbol(place):
            return None
        found = self.relation(place)
        if found is None or not self.symbols:
            return None
        # chi-squared and U-shaped are words
        behind, first = self.at(found[1] + 1), self.at(place)
        compound = self.at(found[1]) == "-" and behind.isalpha() and (first in GREEK or first.isupper())
        return None if compound or self.at(found[1]) in ("'", "`", "%") else found

    def _is_symbol(self, place: int) -> bool:
        """Whether an article is a letter here: something is raised, put below, compared or divided, or it is named."""
        behind = self.behind_space(place + 1)
        named = self.at(place - 2) in ("Let", "Here", "factor", "ratio")
        compared = self.at(behind) in RELATIONS and (self.at(behind) != "<" or self.at(behind + 1).isspace())
        return self.at(place + 1) in ("^", "_", "/") or compared or named

    def relation(self, place: int) -> tuple[str, int] | None:
        found = self.sum(place)
        while found:
            made, end = found
            sign = self.behind_space(end)
            if self.at(sign) == "," and self.tokens[sign + 1 : sign + 5] == [" ", "...", ",", " "]:
                more, word = self.sum(sign + 5), "<mo>,</mo><mo>…</mo><mo>,</mo>"
            elif self.at(sign) in RELATIONS and self.at(sign):
                more, word = self.sum(self.behind_space(sign + 1)), f"<mo>{RELATIONS[self.at(sign)]}</mo>"
            else:
                return found
            if more is None:
                return found
            found = made + word + more[0], more[1]
        return None

    def sum(self, place: int) -> tuple[str, int] | None:
        minus = self.at(place) == "-"
        found = self.product(place + minus)
        if found and minus:
            found = f"<mo>−</mo>{found[0]}", found[1]
        while found:
            made, end = found
            sign = self.behind_space(end)
            # a hyphen has no space on either side of it, or a sign on both
            if self.at(sign) not in ("+", "-") or (sign > end) != self.at(sign + 1).isspace():
                return found
            more = self.product(self.behind_space(sign + 1))
            if more is None:
                return found
            found = f"{made}<mo>{'−' if self.at(sign) == '-' else '+'}</mo>{more[0]}", more[1]
        return None

    def product(self, place: int) -> tuple[str, int] | None:
        found = self.factor(place)
        while found:
            made, end = found
            behind = self.behind_space(end)
            if self.at(behind) == "/":
                more, word = self.factor(self.behind_space(behind + 1)), '<mo lspace="0.1em" rspace="0.1em">/</mo>'
            elif self.at(end) == "." and self.at(end + 1)[:1].isalpha():
                more, word = self.factor(end + 1), "<mo>·</mo>"
            else:
                apart = behind > end and self.at(behind) in ARTICLES and self.at(behind) not in self.raised
                more = None if apart and not self._is_symbol(behind) else self.factor(behind)
                word = '<mspace width="0.17em"></mspace>' if behind > end else ""
            if more is None:
                return found
            found = made + word + more[0], more[1]
        return None

    def factor(self, place: int) -> tuple[str, int] | None:
        """An atom with what is raised above it or put below it."""
        found = self.atom(place)
        if found is None:
            return None
        made, end = found
        below, above = "", ""
        while True:
            sign = self.at(end)
            if sign == "_" and not below and (low := self.script(end + 1)):
                below, end = low
            elif sign == "^" and not above and (high := self.script(end + 1)):
                above, end = high
                self.raised.add(self.at(place))
                self.symbols += 1
            elif sign == "*" and not above:
                above, end = "<mo>&#42;</mo>", end + 1
            else:
                break
        if below and above:
            return f"<msubsup><mrow>{made}</mrow><mrow>{below}</mrow><mrow>{above}</mrow></msubsup>", end
        if below or above:
            kind = "msub" if below else "msup"
            return f"<{kind}><mrow>{made}</mrow><mrow>{below or above}</mrow></{kind}>", end
        return made, end

    def script(self, place: int) -> tuple[str, int] | None:
        """What stands above or below: one number or letter, or more in brackets, which are not shown."""
        first = self.at(place)
        if first in ("(", "{"):
            last = self._closing(place)
            inner = self.relation(place + 1)
            if inner and inner[1] == last:
                return inner[0], last + 1
            flat = "".join(RELATIONS.get(token, html.escape(token)) for token in self.tokens[place + 1 : last])
            return (f"<mtext>{flat}</mtext>", last + 1) if last else None
        if first == "*":
            return "<mo>&#42;</mo>", place + 1
        minus = first == "-"
        atom = self.number(place + minus) or self.letter(place + minus) or self._word(place + minus)
        if atom is None:
            return None
        made, end = atom
        if minus and self.at(end) == "/" and (under := self.number(end + 1)):
            made, end = f'{made}<mo lspace="0" rspace="0">/</mo>{under[0]}', under[1]
        return ("<mo>−</mo>" if minus else "") + made, end

    def _word(self, place: int) -> tuple[str, int] | None:
        word = self.at(place)
        return (f"<mtext>{word}</mtext>", place + 1) if word.isalpha() else None

    def _closing(self, place: int) -> int:
        """Where the bracket that opens here is closed; 0 if nowhere."""
        pairs, depth = {"(": ")", "{": "}", "[": "]"}, 0
        opened, closed = self.at(place), pairs[self.at(place)]
        for end in range(place, len(self.tokens)):
            depth += (self.tokens[end] == opened) - (self.tokens[end] == closed)
            if depth == 0:
                return end
        return 0

    def atom(self, place: int) -> tuple[str, int] | None:
        return self.number(place) or self.function(place) or self.letter(place) or self.bracket(place)

    def number(self, place: int) -> tuple[str, int] | None:
        found = _NUMBER.fullmatch(self.at(place))
        if found is None or self.at(place + 1) == "%":
            return None
        digits, exponent = found.groups()
        if exponent is None:
            return f"<mn>{digits}</mn>", place + 1
        self.symbols += 1
        ten = f"<msup><mn>10</mn><mn>{str(int(exponent)).replace('-', '−')}</mn></msup>"
        return ten if digits == "1" else f"<mn>{digits}</mn><mo>×</mo>{ten}", place + 1

    def letter(self, place: int) -> tuple[str, int] | None:
        word = self.at(place)
        prime = word.endswith("'")
        name = word.removesuffix("'")
        if name in GREEK or name in NAMES or (len(name) == 1 and name.isascii() and name.isalpha()):
            made = f"<mi>{GREEK.get(name, name)}</mi>"
        elif name in PAIRS:
            made = "".join(f"<mi>{one}</mi>" for one in name)
        else:
            return None
        self.symbols += 1
        end = place + 1
        if name in NAMES | {"s", "q"} and self.at(end).isdigit():
            made, end = f"<msub>{made}<mn>{self.at(end)}</mn></msub>", end + 1
        return (f"<mrow>{made}<mo>′</mo></mrow>" if prime else made), end

    def function(self, place: int) -> tuple[str, int] | None:
        name = self.at(place)
        if name not in FUNCTIONS:
            return None
        end, below = place + 1, ""
        if self.at(end) == "10":
            below, end = "<mn>10</mn>", end + 1
        elif self.at(end) == "_" and (low := self.script(end + 1)):
            below, end = low
        over = ""
        if self.at(end) == "^" and (high := self.script(end + 1)):
            over, end = high
        of = self.bracket(end) if self.at(end) == "(" else self.factor(self.behind_space(end))
        if of is None:
            return None
        self.symbols += 1
        if name == "sqrt":
            inner = self.relation(end + 1) if self.at(end) == "(" else None
            return f"<msqrt>{inner[0] if inner else of[0]}</msqrt>", of[1]
        made = "<mo>∑</mo>" if name == "sum" else f"<mi>{name}</mi>"
        if below or over:
            made = f"<msubsup><mrow>{made}</mrow><mrow>{below}</mrow><mrow>{over}</mrow></msubsup>"
        room = "" if self.at(end) == "(" else '<mspace width="0.17em"></mspace>'
        return made + room + of[0], of[1]

    def bracket(self, place: int) -> tuple[str, int] | None:
        opened = self.at(place)
        closed = {"(": ")", "[": "]", "|": "|", "<": ">"}.get(opened, "")
        if not closed:
            return None
        parts: list[str] = []
        end = place
        while True:
            found = self.relation(self.behind_space(end + 1) if parts else end + 1)
            if found is None:
                return None
            parts.append(found[0])
            end = self.behind_space(found[1])
            given = opened == "[" and self.at(end) == "|"
            if self.at(end) != "," and not given:
                break
            parts.append("<mo>|</mo>" if given else '<mo rspace="0.2em">,</mo>')
        # an inner product has two sides: else it is a sign of comparison
        if end != found[1] or self.at(end) != closed or (opened == "<" and len(parts) < 3):
            return None
        left, right = {"<": ("⟨", "⟩")}.get(opened, (opened, closed))
        style = 'stretchy="false" lspace="0" rspace="0"'
        return f"<mrow><mo {style}>{left}</mo>{''.join(parts)}<mo {style}>{right}</mo></mrow>", end + 1
