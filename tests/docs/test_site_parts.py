"""The other generated parts of the site: formulas, included files, the reference, tutorials."""

import html
import re
from pathlib import Path

import benchmark_page
import include
import mathml
import pytest
import reference
import run_notebook
import stored
import text
import typer
from markdown.extensions.toc import slugify

import unlazy.cli
import unlazy.estimators
from unlazy.lab import registry

ROOT = Path(__file__).parents[2]
HAND_WRITTEN = sorted((ROOT / "docs").rglob("*.md"))


def letters(formula: str) -> str:
    return "".join(html.unescape(re.sub(r"<[^>]*>", "", mathml.mathml(formula))).split())


@pytest.mark.parametrize(
    ("formula", "seen"),
    [
        (r"\frac{a}{b}", "ab"),
        (r"\operatorname*{arg\,min}_x f", "argminxf"),
        (r"\begin{aligned} a &= b \\ c &= d \end{aligned}", "a=bc=d"),
        (r"|x|^2/n", "|x|2/n"),
    ],
)
def test_formulas_become_mathml(formula, seen):
    assert letters(formula) == seen


@pytest.mark.parametrize("formula", [r"\notacommand x", r"\begin{nothing} a & b \end{nothing}"])
def test_a_formula_that_is_not_understood_is_refused_and_stays(formula):
    with pytest.raises(mathml.FormulaError, match=r"not know|Error"):
        mathml.mathml(formula)
    page = rf'<p><span class="arithmatex">\({html.escape(formula)}\)</span></p>'
    assert mathml.replace_formulas(page)[0] == page
    assert len(mathml.replace_formulas(page)[1]) == 1


def test_formulas_of_a_page_are_replaced():
    page = r'<span class="arithmatex">\(a &lt; b\)</span> and <div class="arithmatex">\[c\]</div>'
    made, wrong = mathml.replace_formulas(page)
    assert made.count("<math") == 2
    assert "arithmatex" not in made
    assert not wrong


def test_included_sections_are_those_of_the_file(tmp_path):
    (tmp_path / "FILE.md").write_text("# Title\nfirst [a](docs/b.md)\n\n## One\ntext [l](LICENSE)\n\n## Two\nend\n")
    assert include.section(tmp_path, "FILE.md ... # One").strip() == "# Title\nfirst [a](b.md)"
    assert include.section(tmp_path, "FILE.md # One").strip() == "text l"
    with pytest.raises(ValueError, match="no section 'Three'; it has One, Two"):
        include.section(tmp_path, "FILE.md # Three")


def test_a_link_to_a_section_leads_to_the_page_that_has_it(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/more.md").write_text("## Two\n\n<!-- include FILE.md # Two -->\n")
    (tmp_path / "FILE.md").write_text(
        "# Title\n[a](#two) [b](#one) [c](#three)\n\n## One\ntext\n\n## Two\nend\n\n## Three\n"
    )
    assert "[a](more.md#two) [b](#one) c" in include.section(tmp_path, "FILE.md ... # Two")
    assert "[a](#two) [b](#one) [c](#three)" in include.section(tmp_path, "FILE.md")


def filled(page: Path) -> str:
    """A hand-written page with what it includes, without code."""
    made = re.sub(r"<!-- include (.*) -->", lambda found: include.section(ROOT, found[1]), page.read_text())
    return re.sub(r"(?ms)^```.*?^```$|`[^`\n]*`", "", made)


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"(?m)^#+ (.+?)(?: \{.*\})?$", filled(page))
    return {slugify(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading), "-") for heading in headings}


@pytest.mark.parametrize("page", HAND_WRITTEN, ids=lambda page: page.relative_to(ROOT / "docs").as_posix())
def test_no_anchor_of_a_hand_written_page_is_dead(page):
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", filled(page)):
        if not re.match(r"[a-z]+:", target):
            file = (page.parent / target).resolve() if target else page
            assert file in HAND_WRITTEN, f"{target}#{anchor}: only hand-written pages have anchors that last"
            assert anchor in anchors(file), f"{target}#{anchor}"


def test_the_table_of_estimators_is_linked_from_the_first_page():
    assert "use_it.md#use-it-on-your-own-data" in filled(ROOT / "docs/index.md")
    assert "use-it-on-your-own-data" in anchors(ROOT / "docs/use_it.md")


@pytest.mark.parametrize("page", sorted(p.name for p in (ROOT / "docs").glob("*.md")))
def test_what_the_pages_include_is_there(page):
    for argument in re.findall(r"<!-- include (.*) -->", (ROOT / "docs" / page).read_text()):
        assert include.section(ROOT, argument).strip()


def test_the_reference_has_every_command_and_option():
    page = html.unescape(re.sub(r"<[^>]*>", "", reference.command_line()))
    root = typer.main.get_command(unlazy.cli.app)
    for name, command in root.commands.items():
        assert f"## unlazy {name}\n" in page
        for parameter in command.params:
            if parameter.param_type_name == "option":
                assert all(spelling in page for spelling in parameter.opts)
    assert "## unlazy store prune\n" in page


def test_the_reference_names_what_is_public_and_nothing_private():
    pages = reference.pages()
    assert "::: unlazy.estimators.index.single.SingleIndexRegressor" in pages["estimators.md"]
    assert "::: unlazy.theory.regression.ridge.ridge_equivalent" in pages["theory/regression.md"]
    named = re.findall(r"::: (\S+)", "\n".join(pages.values()))
    assert len(named) == len(set(named))
    assert not [name for name in named if any(part.startswith("_") for part in name.split("."))]


def test_every_theory_function_has_a_line_in_the_list_by_topic():
    page = reference.pages()["theory.md"]
    lines = re.findall(
        r'\| \[<code>(.*?)</code>\]\(theory/(\w+)\.md#[\w.]+\) \| <span class="said">(.*?)</span> \|', page
    )
    assert {html.unescape(name) for name, _, _ in lines} == set(unlazy.theory.__all__)
    assert all(len(html.unescape(about)) > 10 for _, _, about in lines)


def test_the_words_of_the_field_lead_to_studies_that_there_are():
    page = (ROOT / "docs" / "terms.md").read_text()
    linked = re.findall(r"gallery/([\w-]+)\.md", page)
    assert len(set(linked)) > 12
    assert set(linked) <= set(registry.names())
    assert page.count("\n:   ") > 45


def test_docstrings_keep_code_and_lose_markup():
    made = text.prose("Sum of a*b*c and `x_i * y`.\n\n    kappa = <a>\n\n- one\n- two `z`")
    assert "*" not in re.sub(r"```.*?```", "", made, flags=re.DOTALL)
    assert "```\nkappa = <a>\n```" in made
    assert "<code>x&#95;i &#42; y</code>" in made
    assert made.endswith("\n\n- one\n- two <code>z</code>")


SECTIONS = """Fits.

Parameters
----------
ridge : float >= 0
    Penalty; `0` is *least squares*,
    see <a>.
cv : int

Attributes
----------
coef_ : (d,), slope;  mean_, scale_ : (d,)
score_ : least of many, so
    optimistic
"""


def test_sections_of_a_docstring_are_lists_with_their_text_escaped():
    import markdown

    made = markdown.markdown(text.prose(SECTIONS), extensions=["md_in_html", "attr_list"])
    assert re.findall(r'<p class="section">(.*?)</p>', made) == ["Parameters", "Attributes"]
    items = [
        html.unescape(re.sub(r"<[^>]*>", "", f"{a}: {b}")) for a, b in re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", made)
    ]
    assert items == [
        "ridge float >= 0: Penalty; 0 is *least squares*, see <a>.",
        "cv int: ",
        "coef_: (d,), slope",
        "mean_, scale_: (d,)",
        "score_: least of many, so optimistic",
    ]
    assert "----" not in made


def test_parameters_whose_meaning_stands_behind_the_colon_go_on_in_the_next_line():
    sentence = "as in `KernelRidge`; for one kernel this may hold the activation and the spike, and a list of"
    made = text.prose(f"Fits.\n\nParameters\n----------\ngamma : {sentence}\n    all others\nseed : chooses rows")
    items = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", html.unescape(made))
    assert [re.sub(r"<[^>]*>", "", term) for term, _ in items] == ["gamma", "seed"]
    assert items[0][1].endswith("and a list of all others")
    assert items[1][1] == "chooses rows"


@pytest.mark.parametrize("name", ["SingleIndexRegressor", "OneStepRegressor", "SharedMetricRegressor"])
def test_every_parameter_of_an_estimator_has_an_entry(name):
    import inspect

    estimator = getattr(unlazy.estimators, name)
    made = html.unescape(text.prose(inspect.getdoc(estimator)))
    terms = set(re.findall(r"<dt><code>(\w+)</code>", made))
    assert set(inspect.signature(estimator).parameters) <= terms


def test_benchmarks_that_are_not_recorded_are_named_with_how_to_record_them():
    page = "# Benchmarks\n\nSome. Not recorded yet: one step, ridge.\n\n## All ratios\n\ntext\n\n## More\n"
    made = benchmark_page._with_missing(page, ["one_step", "ridge"])
    note, _, rest = made.partition("## All ratios")
    assert '!!! info "2 benchmarks are not recorded' in note
    assert "`python -m benchmarks one_step`" in note
    assert "Not recorded yet" not in made
    assert rest == "\n\ntext\n\n## More\n"
    assert benchmark_page._with_missing(page, []) == page


def test_progress_is_told_only_when_it_takes_long(capsys):
    quick, slow = stored._Progress(3), stored._Progress(3, seconds=0)
    quick(1)
    assert capsys.readouterr().err == ""
    slow(2)
    assert capsys.readouterr().err == "gallery: 2 of 3\n"


NOTEBOOK = '''
import marimo

app = marimo.App()

with app.setup:
    import marimo as mo


@app.cell(hide_code=True)
def _():
    mo.md("""
    # Title
    """)
    return


@app.function
def double(x):
    return 2 * x


@app.cell
def _():
    # why
    number = double(
        21
    )
    number
    return (number,)


@app.cell(hide_code=True)
def _(number):
    mo.vstack([mo.md(f"It is **{number}**."), mo.ui.slider(1, 5, label="size")])
    return


if __name__ == "__main__":
    app.run()
'''


def test_a_notebook_becomes_text_code_and_outputs(tmp_path):
    import json
    import subprocess
    import sys

    (tmp_path / "lesson.py").write_text(NOTEBOOK)
    command = [sys.executable, run_notebook.__file__, str(tmp_path / "lesson.py"), str(tmp_path / "out.json")]
    subprocess.run(command, check=True, cwd=tmp_path)
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["names"]["number"] == 42
    setup, title, function, number, both = written["cells"]
    assert setup == {"code": "import marimo as mo", "outputs": []}
    assert title == {"code": "", "outputs": [{"kind": "markdown", "content": "# Title"}]}
    assert function == {"code": "def double(x):\n    return 2 * x", "outputs": []}
    assert number["code"] == "# why\nnumber = double(\n    21\n)\nnumber"
    assert number["outputs"] == [{"kind": "text", "content": "42"}]
    assert both["code"] == ""
    assert both["outputs"][0] == {"kind": "markdown", "content": "It is **42**."}
    assert both["outputs"][1] == {"kind": "control", "content": "size: 1 (from 1 to 5)"}
