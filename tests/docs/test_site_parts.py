"""The other generated parts of the site: formulas, included files, the reference, tutorials."""

import html
import re
from pathlib import Path

import include
import mathml
import pytest
import reference
import run_notebook
import text
import typer

import unlazy.cli

ROOT = Path(__file__).parents[2]


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
    assert "::: unlazy.estimators.SingleIndexRegressor" in pages["estimators.md"]
    assert "::: unlazy.theory.ridge.ridge_equivalent" in pages["theory/ridge.md"]
    named = re.findall(r"::: (\S+)", "\n".join(pages.values()))
    assert len(named) == len(set(named))
    assert not [name for name in named if any(part.startswith("_") for part in name.split("."))]


def test_docstrings_keep_code_and_lose_markup():
    made = text.prose("Sum of a*b*c and `x_i * y`.\n\n    kappa = <a>\n\n- one\n- two `z`")
    assert "*" not in re.sub(r"```.*?```", "", made, flags=re.DOTALL)
    assert "```\nkappa = <a>\n```" in made
    assert "<code>x&#95;i &#42; y</code>" in made
    assert made.endswith("\n\n- one\n- two <code>z</code>")


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
    setup, title, function, number, both = json.loads((tmp_path / "out.json").read_text())
    assert setup == {"code": "import marimo as mo", "outputs": []}
    assert title == {"code": "", "outputs": [{"kind": "markdown", "content": "# Title"}]}
    assert function == {"code": "def double(x):\n    return 2 * x", "outputs": []}
    assert number["code"] == "# why\nnumber = double(\n    21\n)\nnumber"
    assert number["outputs"] == [{"kind": "text", "content": "42"}]
    assert both["code"] == ""
    assert both["outputs"][0] == {"kind": "markdown", "content": "It is **42**."}
    assert both["outputs"][1] == {"kind": "control", "content": "size: 1 (from 1 to 5)"}
