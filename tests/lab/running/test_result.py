"""How a run shows itself in a prompt and in a notebook."""

import xml.etree.ElementTree as ET
from dataclasses import dataclass

import unlazy
from unlazy.lab import Output, Study, at_least, at_most, static
from unlazy.lab.claims import Claim


@dataclass(frozen=True)
class Shown(Study):
    name = "shown"
    question = "Is 2 < 3 & 3 > 2?"
    sources = ()
    n: int = static(2, "n")
    outputs = {"y": Output("y")}
    presets = {"quick": {"seeds": 2}}
    claims = (
        Claim("small", "y is at most 3.", at_most(3.0), lambda part: part.simulated.y, source="nobody"),
        Claim("large", "y is at least 3.", at_least(3.0), lambda part: part.simulated.y, source="nobody"),
        Claim("why", "No.", at_least(3.0), lambda part: part.simulated.y, source="nobody", known_negative="2 < 3"),
    )

    def simulate(self, rng):
        return {"y": float(self.n)}


def test_a_run_shows_its_verdicts_as_a_table(store):
    run = unlazy.run(Shown, store=store)
    page = ET.fromstring(f"<div>{run._repr_html_()}</div>")
    assert page.findtext("p/b") == "shown"
    assert "".join(page.find("p").itertext()).endswith("Is 2 < 3 & 3 > 2?")
    assert [cell.text for cell in page.findall(".//thead/tr/th")][:2] == ["claim", "verdict"]
    rows = [[cell.text for cell in row.findall("td")] for row in page.findall(".//tbody/tr")]
    assert [row[:3] for row in rows] == [
        ["small", "holds", "2"],
        ["large", "fails", "2"],
        ["why", "fails (known)", "2"],
    ]
    assert [row[4] for row in rows] == ["<= 3", ">= 3", ">= 3"]
    assert repr(run) == "<Run of shown: 1 holds, 2 fails>"
