"""The gallery and the page of negatives say what the studies say, and nothing is simulated for them."""

import html
import inspect
import re
from dataclasses import dataclass, replace
from pathlib import Path

import gallery
import negatives
import pytest
import stored

import unlazy
from unlazy.lab import Output, Source, Study, at_most, between, registry, static
from unlazy.lab.claims import Claim
from unlazy.lab.running import pack, packing
from unlazy.lab.running.store import Store

STUDIES = registry.all_studies()


@dataclass(frozen=True)
class Coin(Study):
    """A coin of `sides` sides.

    What it shows: 2 < 3 and a*b*c, not <em>markup</em>.
    """

    name = "coin"
    topic = "examples"
    question = "Is a coin <fair> & *balanced*?"
    sources = (Source("pascal1654", "Pascal, Blaise and Fermat, Pierre", 1654, "Letters", "Paris", kind="misc"),)
    sides: int = static(2, "sides", low=2)
    outputs = {"heads": Output("share of heads")}
    presets = {"quick": {"sides": [2, 4], "seeds": 8}, "full": {"sides": [2, 4, 8], "seeds": 100}}
    claims = (
        Claim("small", "A share is at most 1.", at_most(1), lambda part: part.simulated.heads, source="Pascal 1654"),
        Claim(
            "zero",
            "There are *never* heads | at all.",
            between(-0.1, 0.1),
            lambda part: part.simulated.heads,
            source="Pascal 1654",
            known_negative="There is one head among the [sides](x).",
        ),
    )

    def simulate(self, rng):
        return {"heads": (rng.integers(self.sides, size=1000) == 0).mean()}


def words(page: str) -> str:
    """What a reader sees of a page in Markdown: text without tags, entities resolved."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


def above_the_code(page: str) -> str:
    return page.split("\n## Code")[0]


@pytest.mark.parametrize("study", STUDIES, ids=[study.name for study in STUDIES])
def test_every_study_has_a_page_with_its_own_texts(study):
    page = words(above_the_code(gallery.study_page(study)))
    assert " ".join(study.question.split()) in page
    for claim in study.claims:
        for text in (claim.statement, str(claim.criterion), claim.source, claim.known_negative or ""):
            assert " ".join(text.split()) in page
    for source in study.sources:
        assert " ".join(source.bibtex.split()) in page
    for name, parameter in study.parameters().items():
        assert name in page
        assert " ".join(parameter.label.split()) in page
    assert f"unlazy run {study.name}" in page
    assert "Not in this build's store" in page


def test_a_new_statement_changes_the_page_and_a_known_negative_is_on_it():
    before = words(above_the_code(gallery.study_page(Coin)))
    claims = (replace(Coin.claims[0], statement="A share is below 2."), *Coin.claims[1:])
    changed = words(above_the_code(gallery.study_page(type("Changed", (Coin,), {"claims": claims}))))
    assert "A share is at most 1." in before
    assert "A share is at most 1." not in changed
    assert "A share is below 2." in changed
    assert "There is one head among the [sides](x)." in before


def test_text_of_a_study_is_never_markup():
    import markdown

    page = above_the_code(gallery.study_page(Coin)).split("---\n", 2)[2]
    made = markdown.markdown(page, extensions=["tables", "md_in_html", "attr_list"])
    assert "<fair>" not in made
    assert "<em>" not in made
    assert "Is a coin <fair> & *balanced*?" in words(made)
    assert "a*b*c, not <em>markup</em>." in html.unescape(made)
    assert "There are *never* heads | at all." in words(made)
    assert 'href="x"' not in made


def test_every_known_negative_is_on_the_page_of_negatives():
    page = words(negatives.negatives(STUDIES, {}))
    known = [(study, claim) for study in STUDIES for claim in study.claims if claim.known_negative]
    assert known
    for study, claim in known:
        assert f"{study.name}: {claim.id}" in page
        for text in (claim.statement, claim.known_negative, str(claim.criterion)):
            assert " ".join(text.split()) in page
    assert f"{len(known)} of {sum(len(study.claims) for study in STUDIES)} claims" in page


def test_every_study_has_a_card():
    page = gallery.index(STUDIES, {})
    assert sorted(re.findall(r"\*\*\[([\w-]+)\]\(\1\.md\)\*\*", page)) == sorted(study.name for study in STUDIES)


def test_stored_results_are_shown_and_missing_ones_are_not_simulated(tmp_path, monkeypatch):
    monkeypatch.setattr(stored.platformdirs, "user_cache_dir", lambda name: str(tmp_path / "cache"))
    file = tmp_path / "store.sqlite"
    assert stored.sections([Coin], file) == {}
    assert not file.exists()

    result = unlazy.run(Coin, over={"sides": [2]}, store=file)
    monkeypatch.setattr(Coin, "simulate", _refuse)
    assert stored.sections([Coin], file) == {}
    monkeypatch.undo()

    monkeypatch.setattr(stored.platformdirs, "user_cache_dir", lambda name: str(tmp_path / "cache"))
    result = unlazy.run(Coin, store=file)
    with Store(file) as opened:
        before = opened.contents()
    section = stored.sections([Coin], file)["coin"]
    with monkeypatch.context() as patch:
        patch.setattr(stored, "draw", None)  # what was drawn with the same code is not drawn again
        assert stored.sections([Coin], file)["coin"] == section
    # The same from shipped results, where there is no store: 24 bits change no digit that is shown.
    packing.write(tmp_path / "quick.pack", [Coin], file)
    monkeypatch.setattr(pack, "default_file", lambda: tmp_path / "quick.pack")
    assert stored.sections([Coin], tmp_path / "no.sqlite")["coin"]["claims"] == section["claims"]
    assert not (tmp_path / "no.sqlite").exists()
    with Store(file) as opened:
        assert list(opened.contents()) == list(before)
    page = above_the_code(gallery.study_page(Coin, section))
    assert "<svg" in page
    assert "Not in this build" not in page
    for verdict in result.verdicts:
        assert f"Measured: {verdict.measured:.4g}" in words(page)
    assert "fails (known)" in words(page)
    picture = gallery.thumbnail(section["figure"])
    used = set(re.findall(r'href="#([^"]+)"', picture))
    assert used
    assert used <= set(re.findall(r' id="([^"]+)"', picture))
    assert f"Measured: {result.verdicts[1].measured:.4g}" in words(negatives.negatives([Coin], {"coin": section}))


def test_only_what_is_seen_makes_a_figure_anew():
    seen = {file.name for file in stored.files_of(Path(inspect.getfile(registry.find("spike"))))}
    assert {"spike.py", "gradient_step.py", "drawing.py", "judge.py", "result.py", "report.py"} <= seen
    assert not seen & {"store.py", "execute.py", "cluster.py", "commands.py", "board.py"}


def _refuse(self, rng):
    raise AssertionError("the site must not simulate")
