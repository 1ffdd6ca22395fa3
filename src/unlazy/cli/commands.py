"""The program's commands, those on studies here. Each reads its options, calls the laboratory, prints; nothing else."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unlazy.checks import InputError, check_choice, check_writable
from unlazy.cli import own_data
from unlazy.cli.options import (
    AsJson,
    Budget,
    Cluster,
    Jobs,
    Memory,
    Over,
    PartName,
    Preset,
    Recorded,
    Seeds,
    Set,
    StoreFile,
    Stream,
    StudyName,
    StudyNames,
    Topics,
    chosen_studies,
    complete_study,
)
from unlazy.cli.output import check_figure, print_json, save_figure, say
from unlazy.lab import catalogue, registry
from unlazy.lab.grid import MAIN
from unlazy.lab.parse import parse_duration

if TYPE_CHECKING:
    from unlazy.lab.running.result import Run

app = typer.Typer(
    help="A laboratory for feature learning: predict, simulate, compare and use the theory of trained networks.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
store_app = typer.Typer(rich_markup_mode=None)
app.add_typer(store_app, name="store", help="Where the store of results is and what it holds; cleaning.")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"unlazy {version('unlazy')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _main(
    context: typer.Context,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="show the version and exit")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list")
def list_(topic: Topics = None, as_json: AsJson = False) -> None:
    """Show the studies with topic, source and claims."""
    found = catalogue.entries(topic)
    if as_json:
        print(json.dumps({"studies": [entry._asdict() for entry in found]}))
        return
    from unlazy.reporting.terminal import listing

    print(listing.studies(found))


@app.command("show")
def show_(study: StudyName) -> None:
    """Show a study: the question, parameters, claims, presets."""
    from unlazy.reporting.terminal import show

    show.study(registry.find(study))


@app.command()
def cite(study: StudyName) -> None:
    """Print a study's sources as BibTeX."""
    for source in registry.find(study).sources:
        say(source.bibtex)


@app.command("new")
def new_(
    study: Annotated[str, typer.Argument(metavar="NAME", help="of the study, such as my-result")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="where the file goes")] = Path(),
) -> None:
    """Write the file of a study of your own: it runs, and its comments ask what to write in place of the example."""
    from unlazy.lab.new import new_study

    file = new_study(study, out)
    say(f"wrote {file}; 'unlazy run {file}' runs it, and its comments ask what is missing")


@app.command("predict")
def predict_(study: StudyName, set: Set = None, over: Over = None, as_json: AsJson = False) -> None:
    """Evaluate the theory around the default parameters, at once."""
    from unlazy.lab.running.run import predicted_points
    from unlazy.reporting.terminal import show

    start = time.perf_counter()
    found = predicted_points(study, set, over)
    if as_json:
        print_json(show.prediction_json(found, time.perf_counter() - start))
    else:
        show.prediction(found)


@app.command("run")
def run_(
    study: StudyName,
    preset: Preset = "quick",
    part: PartName = None,
    set: Set = None,
    over: Over = None,
    seeds: Seeds = None,
    stream: Stream = MAIN,
    store: StoreFile = None,
    cluster: Cluster = None,
    memory: Memory = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write the figure: .png .svg .pdf; .gif .mp4 where time goes on")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only show what it would cost")] = False,
    as_json: AsJson = False,
) -> None:
    """Simulate, predict, and judge the claims of a study."""
    from unlazy.lab.running.run import ask, estimate, run
    from unlazy.reporting.terminal import show
    from unlazy.reporting.terminal.bar import Bar

    options: dict[str, Any] = {
        "preset": preset,
        "part": part,
        "set": set,
        "over": over,
        "seeds": seeds,
        "stream": stream,
    }
    asked = ask(study, **options)
    check_figure(figure, asked.study)
    if dry_run:
        costs = estimate(asked, store=store, memory=memory)
        print_json({"programs": [c._asdict() for c in costs]}) if as_json else show.costs(asked.study, costs)
        return
    result = run(asked.study, **options, store=store, cluster=cluster, memory=memory, progress=Bar())
    if as_json:
        print_json(result.as_json())
    else:
        show.run(result)
    save_figure(result, figure, as_json)
    raise typer.Exit(0 if result.as_documented else 1)


@app.command()
def reproduce(
    study: StudyNames = None,
    preset: Preset = "quick",
    topic: Topics = None,
    stream: Stream = MAIN,
    out: Annotated[Path, typer.Option(metavar="DIR", help="where the report goes")] = Path("report"),
    store: StoreFile = None,
    jobs: Jobs = None,
    cluster: Cluster = None,
    memory: Memory = None,
    budget: Budget = None,
    record: Recorded = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only show roughly what it would cost")] = False,
    as_json: AsJson = False,
) -> None:
    """Run all studies, or some: the table of verdicts and a self-contained HTML report.

    What is finished is kept: the same command goes on from there.

    The full preset has the papers' sizes and is for a cluster. Start a Dask scheduler and workers that have the same
    unlazy ('dask scheduler', and on every machine 'dask worker tcp://HOST:8786 --nthreads 1 --nworkers CORES'), then
    run 'unlazy reproduce --preset full --cluster tcp://HOST:8786' where the store is. Workers may come and go. The
    cost is shown beforehand by --dry-run, one topic at a time is run with --topic, two hours at a time with --budget.
    """
    from unlazy.lab.running.evidence import FULL, recorder
    from unlazy.lab.running.reproduce import check_jobs
    from unlazy.lab.running.reproduce import reproduce as reproduce_all
    from unlazy.reporting.html.report import section, write_report
    from unlazy.reporting.terminal import tables
    from unlazy.reporting.terminal.board import watching
    from unlazy.reporting.terminal.show import open_console
    from unlazy.studies import LONGEST

    studies = chosen_studies(study, topic)
    check_choice("preset", preset, dict.fromkeys(p for s in studies for p in s.presets))
    check_jobs(jobs, cluster)
    seconds = None if budget is None else parse_duration(budget)
    if record is not None and preset != FULL:
        raise InputError(f"record is for the preset {FULL}, got {preset}; fresh seeds are recorded by 'unlazy confirm'")
    keep = recorder(record, FULL, stream)
    if dry_run:
        from unlazy.lab.running.cost import outlook

        with open_console(stderr=True).status("planning") as status:
            planned = outlook(studies, preset, store, memory, lambda name: status.update(f"planning {name}"))
        print_json(planned.as_json()) if as_json else tables.outlook(planned)
        return
    page, new = out / "index.html", not out.exists()
    check_writable(page)
    drawn: dict[str, Any] = {}

    def draw(run: Run) -> None:
        drawn[run.study.name] = section(run)
        keep(run)

    try:
        with watching(studies, as_json) as watch:
            outcome = reproduce_all(
                studies,
                watch,
                preset=preset,
                stream=stream,
                store=store,
                cluster=cluster,
                memory=memory,
                jobs=jobs,
                longest=LONGEST,
                budget=seconds,
                each=draw,
            )
    except InputError:
        # What is refused leaves nothing behind.
        if new:
            with contextlib.suppress(OSError):
                out.rmdir()
        raise
    words = preset if stream == MAIN else f"{preset}, stream {stream}"
    write_report(outcome.runs, page, words, outcome.broken, drawn, outcome.seconds)
    with contextlib.suppress(BrokenPipeError):
        if as_json:
            print_json({**outcome.as_json(), "report": str(page)})
        else:
            tables.verdicts(outcome)
            say(f"report: {page}")
    raise typer.Exit(3 if outcome.unfinished else 0 if outcome.as_documented else 1)


@app.command()
def confirm(
    study: StudyNames = None,
    topic: Topics = None,
    stream: Annotated[
        str | None, typer.Option(metavar="NAME", help="go on with a stream that was interrupted; a new one is drawn")
    ] = None,
    store: StoreFile = None,
    jobs: Jobs = None,
    cluster: Cluster = None,
    memory: Memory = None,
    budget: Budget = None,
    record: Recorded = None,
    as_json: AsJson = False,
) -> None:
    """Run studies on seeds that nobody has looked at, and compare the verdicts with the documented ones.

    The fresh seeds are those of a stream, which is drawn and named; what the store lacks of the main stream is computed
    too. What is finished is kept: the same command with --stream NAME goes on from there.
    """
    from unlazy.lab.running.confirm import check_fresh, fresh_stream
    from unlazy.lab.running.confirm import confirm as confirm_all
    from unlazy.lab.running.evidence import FRESH, recorder
    from unlazy.lab.running.reproduce import check_jobs
    from unlazy.reporting.terminal import tables
    from unlazy.reporting.terminal.board import watching
    from unlazy.studies import LONGEST

    studies = chosen_studies(study, topic)
    check_jobs(jobs, cluster)
    seconds = None if budget is None else parse_duration(budget)
    name = fresh_stream() if stream is None else stream
    check_fresh(name)
    keep = recorder(record, FRESH, name)
    # What is interrupted goes on by this name.
    print(f"stream {name}", file=sys.stderr if as_json else sys.stdout, flush=True)
    found = confirm_all(
        studies,
        lambda one: watching(studies, as_json),
        stream=name,
        store=store,
        cluster=cluster,
        memory=memory,
        jobs=jobs,
        longest=LONGEST,
        budget=seconds,
    )
    for run in found.fresh.runs:
        keep(run)
    with contextlib.suppress(BrokenPipeError):
        print_json(found.as_json()) if as_json else tables.confirmation(found)
    raise typer.Exit(3 if found.unfinished else 0 if found.confirmed else 1)


for _command in (own_data.forecast, own_data.fit, own_data.probe):
    app.command()(_command)


@app.command("explore")
def explore_(
    study: Annotated[
        str | None, typer.Argument(metavar="STUDY", help="what to show first", autocompletion=complete_study)
    ] = None,
    port: Annotated[int | None, typer.Option(metavar="N", help="a free one from 2718 on")] = None,
    host: Annotated[str, typer.Option(metavar="H", help="another address opens it to other machines")] = "127.0.0.1",
    no_browser: Annotated[bool, typer.Option("--no-browser", help="do not open the page in the browser")] = False,
    store: StoreFile = None,
) -> None:
    """Explore a study in the browser: move its parameters, watch the theory, add simulated points."""
    from unlazy.app.server import serve

    serve(study, host, port, not no_browser, store)


@app.command("export")
def export_(
    study: StudyName,
    file: Annotated[Path, typer.Argument(metavar="FILE.nc")],
    preset: Preset = "quick",
    part: PartName = None,
    set: Set = None,
    over: Over = None,
    seeds: Seeds = None,
    stream: Stream = MAIN,
    store: StoreFile = None,
) -> None:
    """Write stored results as netCDF, one group per part."""
    from unlazy.reporting.export import export

    export(study, file, preset=preset, set=set, over=over, seeds=seeds, stream=stream, part=part, store=store)
    say(f"wrote {file}")


@store_app.callback(invoke_without_command=True)
def store_(context: typer.Context, store: StoreFile = None) -> None:
    """Show where the store is and what it holds."""
    from unlazy.lab.running.store import Store
    from unlazy.reporting.terminal import show

    context.obj = store
    if context.invoked_subcommand is None:
        with Store(store, create=False) as opened:
            show.store(opened)


@store_app.command()
def prune(context: typer.Context, store: StoreFile = None) -> None:
    """Delete results that were computed by code that has changed since, or by a JAX that computes wrong numbers."""
    from unlazy.lab.running.fingerprint import fingerprint
    from unlazy.lab.running.store import Store

    with Store(store or context.obj, create=False) as opened:
        removed = opened.prune((s.name, fingerprint(s)) for s in registry.all_studies())
        say(f"removed {removed} instances from {opened.path}")
