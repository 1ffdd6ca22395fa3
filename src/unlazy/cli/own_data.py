"""The commands on data and networks of a user's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unlazy.checks import check_choice, check_writable
from unlazy.cli.options import AsJson, Figure
from unlazy.cli.output import answer, check_figure, say
from unlazy.lab.parse import parse_duration

Table = Annotated[Path, typer.Argument(metavar="DATA.csv", help="a CSV, TSV or Parquet file")]


def forecast(
    data: Table,
    target: Annotated[list[str], typer.Option(metavar="COLUMN", help="what to predict; may be given several times")],
    kernel: Annotated[
        list[str] | None,
        typer.Option(
            help="ridge, kernel-ridge, random-features, metric-machine (these four if not given), one-step, laplacian"
        ),
    ] = None,
    n: Annotated[str, typer.Option(metavar="N,N,2x", help="numbers of rows, or multiples of those in the file")] = (
        "1x,2x,5x,10x"
    ),
    width: Annotated[int | None, typer.Option(help="random features; enough to be within 5% of the kernel")] = None,
    penalty: Annotated[float | None, typer.Option(help="alpha of KernelRidge; chosen by leave-one-out")] = None,
    gamma: Annotated[float | None, typer.Option(help="of the rbf kernel; chosen by leave-one-out")] = None,
    check: Annotated[bool, typer.Option("--check", help="forecast from parts of the file, then train on it")] = False,
    columns: Annotated[bool, typer.Option("--columns", help="which columns would not be missed")] = False,
    figure: Figure = None,
    as_json: AsJson = False,
) -> None:
    """Forecast what more rows of your own data would bring to ridge, kernels, random features and metric machines."""
    check_figure(figure)
    from unlazy.diagnostics import forecasting
    from unlazy.reporting.terminal.show import open_console

    with open_console(stderr=True).status("reading the table") as status:
        found = forecasting.forecast(
            data,
            target,
            kernel=kernel,
            n=n,
            width=width,
            penalty=penalty,
            gamma=gamma,
            check=check,
            columns=columns,
            progress=status.update,
        )
    answer(found, figure, as_json)


def fit(
    data: Table,
    target: Annotated[str, typer.Option(metavar="COLUMN", help="what to predict")],
    kind: Annotated[str | None, typer.Option(help="numbers or classes; decided by the column if not given")] = None,
    budget: Annotated[str, typer.Option(metavar="TIME", help="slow methods are left out: 90s, 5m")] = "5m",
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="of folds and methods")] = 0,
    save: Annotated[Path | None, typer.Option(metavar="FILE.skops", help="write the chosen model")] = None,
    explain: Annotated[Path | None, typer.Option(metavar="FILE.html", help="write the report as a page")] = None,
    figure: Figure = None,
    as_json: AsJson = False,
) -> None:
    """Find out which method predicts a column of your own table best, and fit it."""
    check_figure(figure)
    from unlazy.diagnostics import fitting
    from unlazy.reporting.terminal.show import open_console

    for file, checked in ((save, fitting.check_model_file), (explain, fitting.check_page)):
        if file is not None:
            checked(file)
            check_writable(file)
    seconds = parse_duration(budget)
    with open_console(stderr=True).status("reading the table") as status:
        found = fitting.fit(data, target, kind=kind, budget=seconds, random_state=seed, progress=status.update)
    answer(found, figure, as_json)
    if save is not None:
        fitting.save_model(found.model, save)
    if explain is not None:
        found.save(explain)
    for what, file in (("model", save), ("page", explain)):
        if file is not None and not as_json:
            say(f"{what}: {file}")


def probe(
    source: Annotated[str, typer.Argument(metavar="run.py:make_model", help="or a folder of .npz activations")],
    checkpoints: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'ckpt/*.pt'", help="files of parameters, the one before training first; may be given several times"
        ),
    ] = None,
    data: Annotated[Path | None, typer.Option(metavar="FILE.npz", help="the arrays X, y, X_val, y_val")] = None,
    rows: Annotated[int, typer.Option(help="training rows, and held-out ones, that go into kernels")] = 500,
    budget: Annotated[float, typer.Option(metavar="MB", help="memory for the tangent kernel")] = 512,
    figure: Figure = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="write a page (.html), or all numbers (.nc)")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a network of your own has learned: lazily or richly, signal or memory, and what else would do.

    make_model is a function in your script that returns the model; the script is run. Checkpoints are read without
    unpickling anything.
    """
    check_figure(figure)
    if out is not None:
        check_choice("the ending of --out", out.suffix, (".html", ".nc"))
        check_writable(out)
    from unlazy.diagnostics.probing import probe_files
    from unlazy.reporting.terminal.show import open_console

    with open_console(stderr=True).status("reading the checkpoints") as status:
        found = probe_files(source, checkpoints, data, rows=rows, budget=budget, progress=status.update)
    answer(found, figure, as_json)
    if out is not None:
        found.save(out)
        if not as_json:
            say(f"report: {out}")
