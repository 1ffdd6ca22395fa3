"""The explorer's page as its cells make it, without a browser."""

import json
from html.parser import HTMLParser

import pytest

pytest.importorskip("marimo", reason="the extra app is not installed")

EVIL = "\x1b]0;owned\x07\x9b2J\r\u202e"
OWN = f"""
from dataclasses import dataclass
from unlazy.checks import InputError
from unlazy.lab import Output, Source, Study, path, static, value

EVIL = {EVIL!r}

@dataclass(frozen=True)
class Own(Study):
    question = EVIL + "?"
    sources = (Source("a1", EVIL, 1, EVIL, EVIL),)
    n: int = static(2, "n" + EVIL, low=1)
    kind: str = static("a", "kind" + EVIL, choices=("a", "b"))
    at: tuple = path((1.0, 2.0), "place" + EVIL)
    outputs = {{"y": Output("label" + EVIL, dims=("at",)), "z": Output("other" + EVIL)}}
    presets = {{"quick": {{"n": [1, 2, 3], "seeds": 2}}}}

    def simulate(self, rng):
        return {{"y": [1.0, 2.0], "z": 1.0}}

    def predict(self):
        if self.n == REFUSED:
            raise InputError("this is " + EVIL)
        return {{"y": [self.n * at for at in self.at], "z": 1.0}}
"""


class Read(HTMLParser):
    """What a browser makes of a page: its texts, and its attributes, of which marimo reads those in JSON."""

    def __init__(self, page):
        super().__init__()
        self.texts = []
        self.feed(page)

    def handle_data(self, data):
        self.texts.append(data)

    def handle_starttag(self, tag, attrs):
        for _, text in attrs:
            try:
                self.texts += _strings(json.loads(text or ""))
            except ValueError:
                self.texts.append(text or "")


def _strings(value):
    if isinstance(value, dict | list):
        inner = [*value, *value.values()] if isinstance(value, dict) else value
        return [text for entry in inner for text in _strings(entry)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("refused", [2, 99])
def test_the_page_of_a_users_own_study_has_no_control_characters(monkeypatch, tmp_path, refused):
    from unlazy.app.page import app
    from unlazy.app.server import OWN_STORE, OWN_STUDY

    (tmp_path / "own.py").write_text(OWN.replace("REFUSED", str(refused)))
    monkeypatch.setenv(OWN_STUDY, f"{tmp_path / 'own.py'}:Own")
    monkeypatch.setenv(OWN_STORE, str(tmp_path / "s.sqlite"))
    outputs, names = app.run()
    pages = [output.text for output in outputs if output is not None]
    read = "\n".join(text for page in pages for text in Read(page).texts)
    for words in ("n", "kind", "place", "label", "other"):
        assert words + r"\x1b]0;owned\x07\x9b2J\r\u202e" in read
    assert ("this is" in read) == bool(names["trouble"]) == (refused == 2)
    assert any("<svg" in page for page in pages) == (refused != 2)
    # Neither the study's folder nor the store's.
    assert "own.py:Own" in read
    assert not [page for page in [read, *pages] if str(tmp_path) in page]
    assert {sign for page in [read, *pages] for sign in page if sign in EVIL and not sign.isprintable()} == set()
