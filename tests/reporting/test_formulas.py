"""Formulas in the sentences of studies: what is one is drawn, what is none stays as it was written."""

import html
import re
from xml.etree import ElementTree

import pytest

from unlazy.lab import registry
from unlazy.reporting.html.formulas import FUNCTIONS, marked

STUDIES = registry.all_studies()


def drawn(text):
    """What is drawn of each formula, as nested tuples of tags and texts: ('msup', 'd', '2')."""
    found = ElementTree.fromstring(f"<p>{marked(text)}</p>").iter("math")
    return [_shape(math.find("semantics/mrow")) for math in found]


def _shape(element):
    parts = [part for part in map(_shape, element) if part != ""]
    if element.tag == "mrow":
        return parts[0] if len(parts) == 1 else tuple(parts)
    return (element.tag, *parts) if parts else (element.text or "")


def written(made):
    """The sentence as it was before: every formula is its plain form again."""
    plain = re.sub(r"<math>.*?<annotation[^>]*>(.*?)</annotation></semantics></math>", r"\1", made)
    return html.unescape(plain)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("like d^(1/4) or", [("msup", "d", ("1", "/", "4"))]),
        ("n SNR^2 = 4 is", [("n", ("msup", "SNR", "2"), "=", "4")]),
        ("|mu|^2 grows", [("msup", ("|", "μ", "|"), "2")]),
        ("a <v, xi> of", [("⟨", "v", ",", "ξ", "⟩")]),
        ("the ratio risk / |P_{>1} f|^2 is", [("msup", ("|", ("msub", "P", ">1"), "f", "|"), "2")]),
        ("at sqrt(N) too", [("msqrt", "N")]),
        ("n^-1/2 falls", [("msup", "n", ("−", "1", "/", "2"))]),
        ("E[h_k | y] is", [("E", ("[", ("msub", "h", "k"), "|", "y", "]"))]),
        ("0.95 < kappa < 1.05 holds", [("0.95", "<", "κ", "<", "1.05")]),
        ("at 1e-05 and 10^6", [("msup", "10", "−5"), ("msup", "10", "6")]),
        ("a^T W a differs", [(("msup", "a", "T"), "W", "a")]),
        ("n' of n", [("n", "′"), "n"]),
        ("n/d = 2, ..., 8 with", [("n", "/", "d", "=", "2", ",", "…", ",", "8")]),
        ("the number -1 and 3 of 10%, 8 x 8 digits", []),
        ("A step of I, a chi-squared or U-shaped well-known Marchenko-Pastur law (see below)", []),
        ("log(squared overlap), |risk| and <b>bold</b>", []),
        ("In an r-dimensional space", ["r"]),
    ],
)
def test_a_formula_is_drawn_and_words_are_not(text, expected):
    assert drawn(text) == expected


@pytest.mark.parametrize("study", STUDIES, ids=[study.name for study in STUDIES])
def test_sentences_of_studies_lose_nothing_and_no_word_becomes_a_formula(study):
    notes = [note for claim in study.claims for note in claim.notes]
    for text in (study.question, *(claim.statement for claim in study.claims), *notes):
        made = marked(text)
        assert written(made).replace("×", "x") == text
        root = ElementTree.fromstring(f"<p>{made}</p>")
        names = {e.text for e in root.iter("mi") if len(e.text or "") > 1}
        assert names <= FUNCTIONS | {"SNR", "He"}


def test_text_cannot_become_markup():
    evil = '<img src=x onerror="alert(1)"> & n^2 <script>n = d</script>'
    made = marked(evil)
    assert "<img" not in made
    assert "<script" not in made
    assert written(made) == evil
