"""Finding studies, and refusing broken ones."""

import re
from dataclasses import dataclass

import pytest

from unlazy.checks import InputError
from unlazy.lab import Output, Source, Study, registry, static, value
from unlazy.lab import sources as bibliography

FILE = """
from dataclasses import dataclass
from unlazy.lab import Output, Study, static

@dataclass(frozen=True)
class Mine(Study):
    name = "mine"
    topic = "own"
    question = "?"
    sources = ()
    n: int = static(3, "n")
    outputs = {"y": Output("y")}
    presets = {"quick": {}}

    def simulate(self, rng):
        return {"y": float(self.n)}
"""


def test_a_study_in_a_file_is_found_with_and_without_its_class_name(tmp_path):
    file = tmp_path / "own_study.py"
    file.write_text(FILE)
    assert registry.find(f"{file}:Mine").name == "mine"
    assert registry.find(str(file)).name == "mine"


def test_names_are_the_files_of_the_studies_and_need_no_import():
    names = registry.names()
    assert names["ridge-equivalent"] == "unlazy.studies.regression.ridge_equivalent"
    assert set(registry.topics()) >= {"one_step", "regression"}


def test_topics_select_studies():
    assert {s.topic for s in registry.all_studies(["regression"])} == {"regression"}
    with pytest.raises(InputError, match=r"topic must be one of .*did you mean regression"):
        registry.all_studies(["regresion"])


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("ridge-equivalet", "did you mean ridge-equivalent"),
        ("no_such_file.py:Mine", "does not exist"),
        (7, "must be a name"),
    ],
)
def test_unknown_studies_are_refused_with_the_nearest_name(reference, message):
    with pytest.raises(InputError, match=message):
        registry.find(reference)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "it has no study"),
        ("import does_not_exist", "cannot be imported: ModuleNotFoundError"),
        ("def f(:", "cannot be imported: SyntaxError"),
        (FILE.replace("(frozen=True)", "()"), "frozen=True"),
        (FILE.replace('    question = "?"\n', ""), "'question' is missing"),
        (FILE.replace("static(3, ", "int(3) if ").replace('int(3) if "n")', "3"), "must be declared with static"),
        (FILE.replace('"quick"', '"slow"'), "presets must contain 'quick'"),
        (FILE.replace("def simulate(self, rng)", "def simulate(self, seed)"), "called key .* or rng"),
        (FILE.replace('{"y": Output("y")}', "{}"), "at least one result"),
        (FILE.replace('{"y": Output', '{"n": Output'), "'n' has the name of a parameter"),
        (FILE.replace("    n: int", "    topic: int"), "has the name of an attribute of Study"),
        (FILE.replace('"mine"', '"Mine/.."'), "name must be small letters"),
        (FILE.replace('"mine"', '"ridge-equivalent"'), "is the name of a study of the package"),
        (FILE.replace("sources = ()", "sources = 3"), "sources must be a tuple"),
        (FILE.replace('static(3, "n")', 'static(1.5, "n")'), "declared int but its default is 1.5"),
        (FILE.replace('static(3, "n")', 'static(3, "n", scale="lgo")'), "scale must be one of linear, log"),
        (FILE.replace("    def simulate", '    lines = {"mian": "n"}\n\n    def simulate'), "lines names 'mian'"),
        (
            FILE.replace("    def simulate", "    claims = (7,)\n\n    def simulate"),
            "claims are functions under @claim; got 7",
        ),
        (FILE.replace('Output("y")', 'Output("y", only={"m": (3,)})'), "only for values of 'm', which is no parameter"),
        (FILE.replace('Output("y")', 'Output("y", only={"n": 3})'), "only of output 'y' must map parameters to tuples"),
        (
            FILE.replace('Output("y")', 'Output("y", undefined=3.0)'),
            "undefined of output 'y' must be NaN or an infinity",
        ),
        (
            FILE.replace("    def simulate", "    agreement = -1.0\n\n    def simulate"),
            "agreement must be a number > 0",
        ),
        (
            FILE.replace("static(3", "path((3,)")
            .replace("static", "path")
            .replace('Output("y")', 'Output("y", dims=("nn",))'),
            "no coordinates .did you mean n",
        ),
    ],
)
def test_broken_study_files_say_what_to_mend(tmp_path, text, message):
    file = tmp_path / "broken.py"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        registry.find(str(file))


def test_a_class_that_is_not_in_the_file_is_named(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(FILE)
    with pytest.raises(InputError, match=r"no study class 'Mime'.*did you mean Mine"):
        registry.find(f"{file}:Mime")


def test_sources_read_as_citations_and_bibtex():
    one = Source("a", "Bach, Francis", 2019, "T", "J")
    three = Source("b", "Chizat, L. and Oyallon, E. and Bach, F.", 2019, "T", "NeurIPS", kind="inproceedings")
    assert one.short == "Bach 2019"
    assert three.short == "Chizat et al. 2019"
    assert "booktitle = {NeurIPS}" in three.bibtex
    assert three.bibtex.startswith("@inproceedings{b,")


def test_volume_number_and_pages_have_their_own_fields_and_people_read_them_as_before():
    hastie = registry.find("ridge-equivalent").sources[0]
    assert hastie.place == "The Annals of Statistics 50(2), 949-986"
    for field in ("journal = {The Annals of Statistics}", "volume = {50}", "number = {2}", "pages = {949--986}"):
        assert f"  {field},\n" in hastie.bibtex
    for source in bibliography.references(registry.folder() / bibliography.FILE).values():
        assert not re.search(r"\s\d+(\(\d+\))?(,\s\S+)?$", source.venue) or source.kind == "misc", source.key


def test_a_source_that_stands_twice_is_refused(tmp_path):
    entry = "@misc{a,\n  author = {A},\n  title = {T},\n  year = {2020}\n}\n\n"
    file = tmp_path / bibliography.FILE
    file.write_text(2 * entry)
    with pytest.raises(InputError, match="entry a stands there twice"):
        bibliography.references(file)


def test_a_text_parameter_cannot_be_traced():
    @dataclass(frozen=True)
    class Wrong(Study):
        name = "wrong"
        topic = "own"
        question = "?"
        sources = ()
        kind: str = value("a", "kind")
        n: int = static(1, "n")
        outputs = {"y": Output("y")}
        presets = {"quick": {}}

        def simulate(self, rng):
            return {"y": 0.0}

    with pytest.raises(InputError, match="use static"):
        registry.find(Wrong)
