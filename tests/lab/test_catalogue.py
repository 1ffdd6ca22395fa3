"""The catalogue of studies: its index says what the studies say, and one that does not is not believed."""

import json

import pytest

from unlazy.lab import catalogue, registry


def test_the_index_is_what_the_studies_say():
    kept = (registry.folder() / catalogue.INDEX).read_text(encoding="utf-8")
    assert kept == catalogue.made(), "the index of studies is old: `make index` writes it anew"


@pytest.mark.parametrize(
    "index",
    [
        None,
        "no JSON",
        "[]",
        '{"ridge-equivalent": 3}',
        '{"ridge-equivalent": {"made_from": "0123456789abcdef", "name": "ridge-equivalent", "topic": "regression", '
        '"question": "What was asked before?", "source": "", "claims": []}}',
    ],
)
def test_an_index_that_is_missing_damaged_or_old_changes_nothing(index, tmp_path, monkeypatch):
    file = tmp_path / "index.json"
    if index is not None:
        file.write_text(index)
    # The name of a file that is whole replaces the folder.
    monkeypatch.setattr(catalogue, "INDEX", str(file))
    found = catalogue.entries(["regression"])
    assert [entry.name for entry in found] == registry.names_of(["regression"])
    assert found[0] == catalogue._entry(registry.find(found[0].name))
    assert "What was asked before?" not in {entry.question for entry in found}


def test_an_entry_with_a_field_that_nobody_knows_is_not_used(tmp_path, monkeypatch):
    lines = json.loads(catalogue.made())
    lines["ridge-equivalent"]["flavour"] = "sweet"
    (tmp_path / "index.json").write_text(json.dumps(lines))
    monkeypatch.setattr(catalogue, "INDEX", str(tmp_path / "index.json"))
    assert catalogue.entries(["regression"])
