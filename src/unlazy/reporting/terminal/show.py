"""What the command line prints."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console, ConsoleOptions
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from unlazy.lab.claims import KINDS, VERDICT_COLUMNS, Verdict, tally
from unlazy.lab.grid import ParameterGrid, preset_grids
from unlazy.lab.running.arithmetic import made_wrong
from unlazy.lab.running.dataset import inner_coordinates
from unlazy.lab.running.evidence import told
from unlazy.lab.study import Study
from unlazy.words import number, plain, shown

if TYPE_CHECKING:
    from pathlib import Path

    from unlazy.lab.running.cost import Cost
    from unlazy.lab.running.result import Run
    from unlazy.lab.running.run import Prediction
    from unlazy.lab.running.store import Store

_MOST_ROWS = 40
SHORT_KINDS = ("holds", "known", "fragile", "untest.", "inconc.", "differs")
"""KINDS as headings where there is little room."""
KIND_STYLES = {
    "holds": "green",
    "fails (known)": "cyan",
    "fragile": "magenta",
    "untested": "dim",
    "inconclusive": "yellow",
    "differs": "bold red",
}


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        # Here pass all texts, and rich's own control codes apart from them.
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else plain(text), style, control)


def open_console(*, stderr: bool = False) -> Console:
    """Standard output or error, on which no text is a command; 120 columns where it is no terminal."""
    console = _Console(highlight=False, markup=False, stderr=stderr)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 120
    return console


def plain_table(*columns: str) -> Table:
    """A table without lines."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=index == 0)
    return table


def study(cls: type[Study]) -> None:
    """All about one study."""
    console = open_console()
    console.print(Text(cls.name, "bold"), f"({cls.topic})")
    console.print(cls.question)
    kind = "hosted (NumPy)" if cls.is_hosted() else f"traced (JAX, {cls.precision})"
    some = f"has a prediction {cls.theory_in_words()}".strip()
    theory = some if cls.defines("predict") else "no prediction without simulation"
    console.print(f"simulation: {kind}; theory: {theory}\n")
    table = plain_table("parameter", "kind", "default", "allowed", "meaning")
    for name, p in cls.parameters().items():
        default = shown(list(p.default)) if p.kind == "path" else str(p.default)
        kind = p.kind + (", paired" if p.paired else "")
        table.add_row(Text(name, "bold"), kind, default, p.allowed, p.label)
    console.print(table)
    table = plain_table("output", "dimensions", "meaning")
    for name, output in cls.outputs.items():
        table.add_row(Text(name, "bold"), ", ".join(output.dims), output.label)
    console.print("\n", table, sep="")
    if cls.claims:
        table = plain_table("claim", "criterion", "statement", "source")
        for c in cls.claims:
            statement = " ".join([c.statement, *c.notes, *told(cls, c)])
            table.add_row(Text(c.id, "bold"), str(c.criterion), statement, c.source)
        console.print("\n", table, sep="")
        _print_notes(cls)
    table = plain_table("preset", "part", "axes", "points", "seeds")
    for preset in cls.presets:
        for part, grid in preset_grids(cls, preset).items():
            table.add_row(preset, part, _axes_text(grid), str(grid.size), str(grid.seeds))
    console.print("\n", table, sep="")
    for source in cls.sources:
        console.print(f"\n{source.authors} ({source.year}). {source.title}. {source.place}.")


def _print_notes(cls: type[Study]) -> None:
    for note in cls.notes():
        open_console().print(f"All claims. {note}")


def _axes_text(grid: ParameterGrid) -> str:
    words = [f"{'/'.join(a.names)}: {shown([r[0] if len(r) == 1 else r for r in a.rows])}" for a in grid.axes]
    words += [f"{n}: {shown(grid.fixed[n])}" for n, p in grid.study.parameters().items() if p.kind == "path"]
    return "; ".join(words)


def _rows(grid: ParameterGrid, columns: Mapping[str, list[np.ndarray]], dims: Sequence[str]) -> Iterator[list[Any]]:
    """Predictions as rows of a table: one per point and per entry of its output dimensions."""
    cls = grid.study
    varying = [name for axis in grid.axes for name in axis.names]
    for index, point in enumerate(grid.points()):
        shapes = _lengths(cls, columns, index)
        inner = dict(cls(**point).coordinates())
        inner.update({d: point[d] for d in dims if d in point})
        for position in np.ndindex(*(shapes[d] for d in dims)):
            at = dict(zip(dims, position, strict=True))
            row = [point[n] for n in varying] + [inner.get(d, range(shapes[d]))[at[d]] for d in dims]
            for name, column in columns.items():
                row.append(column[index][tuple(at[d] for d in cls.outputs[name].dims)].item())
            yield row


def _lengths(cls: type[Study], columns: Mapping[str, list[np.ndarray]], index: int) -> dict[str, int]:
    """The lengths of the output dimensions at a point."""
    return {d: length for n in columns for d, length in zip(cls.outputs[n].dims, columns[n][index].shape, strict=True)}


def prediction(found: Prediction) -> None:
    """The table of predictions, and what stands in it for what is no number."""
    grid, columns = found
    outputs = grid.study.outputs
    dims = list(dict.fromkeys(dim for name in columns for dim in outputs[name].dims))
    header = [*(name for axis in grid.axes for name in axis.names), *dims, *columns]
    fixed = {n: v for n, v in grid.fixed.items() if n not in header}
    console = open_console()
    console.print(f"{grid.study.name}: " + ", ".join(f"{n} = {number(v, 6)}" for n, v in fixed.items()))
    table = plain_table(*header)
    for row in islice(_rows(grid, columns, dims), _MOST_ROWS):
        table.add_row(*(number(v, 6) for v in row))
    console.print(table)
    total = sum(math.prod(_lengths(grid.study, columns, index).values()) for index in range(grid.size))
    if total > _MOST_ROWS:
        console.print(f"… {total - _MOST_ROWS} more rows; --json prints them all")
    for note in found.notes:
        console.print(note)


def prediction_json(found: Prediction, seconds: float) -> dict[str, Any]:
    """Predictions in the form of the command line's JSON."""
    grid, columns = found
    cls = grid.study
    axes = {name: (axis.column(name), [axis.dim]) for axis in grid.axes for name in axis.names}
    used = dict.fromkeys(dim for name in columns for dim in cls.outputs[name].dims)
    inner = {**inner_coordinates(grid), **{d: grid.fixed[d] for d in used if d in grid.fixed}}
    axes.update({d: (list(inner[d]), [d]) for d in used if d in inner})
    dims = [axis.dim for axis in grid.axes]
    results: dict[str, Any] = {name: values for name, (values, _) in axes.items()}
    named = {name: d for name, (_, d) in axes.items()}
    for name, column in columns.items():
        results[name] = np.stack(column).reshape((*grid.shape, *column[0].shape))
        named[name] = [*dims, *cls.outputs[name].dims]
    return {
        "study": cls.name,
        "parameters": grid.parameters(),
        "claims": [],
        "seconds": seconds,
        "results": {grid.part: results},
        "dims": {grid.part: named},
        "notes": found.notes,
    }


def verdict_row(verdict: Verdict) -> list[Any]:
    """The word, the measured number, its interval, the criterion and the chance."""
    word, *others = verdict.cells
    return [Text(word, KIND_STYLES[verdict.kind]), *others]


def run(result: Run) -> None:
    """What came of one run."""
    console = open_console()
    total = sum(grid.instances for grid in result.grids.values())
    console.print(Text(result.study.name, "bold"), f"– {result.study.question}")
    table = plain_table(*VERDICT_COLUMNS)
    for verdict in result.verdicts:
        table.add_row(Text(verdict.claim.id, "bold"), *verdict_row(verdict), verdict.where)
    if result.verdicts:
        console.print("\n", table, "\n", sep="")
    for claim in result.study.claims:
        console.print(
            Text(claim.id, "bold"),
            " ".join([f"({claim.source})", claim.statement, *claim.notes, *told(result.study, claim)]),
        )
    _print_notes(result.study)
    console.print()
    console.print(
        f"{total} instances, {result.computed} computed now, {total - result.computed} from the store; "
        f"{result.seconds:.1f} s (simulation {result.cost:.1f} s when it was computed)"
    )
    if result.divergence:
        console.print(f"{result.divergence}: they are no results; the step is in diverged_at")


def summary(result: Run) -> str:
    """The verdicts of one study in a few words."""
    return f"{result.study.name}: {tally([v.word for v in result.verdicts])} ({result.seconds:.1f} s)"


def kind_cells(counts: Mapping[str, int]) -> list[Text]:
    """The counts in the order of KINDS; nothing for zero."""
    return [Text(str(counts[k]) if counts.get(k) else "", KIND_STYLES[k]) for k in KINDS]


def kinds_in_words(counts: Mapping[str, int]) -> list[str]:
    """The counts that are not zero, in the order of KINDS."""
    return [f"{counts[kind]} {kind}" for kind in KINDS if counts.get(kind)]


def clock(seconds: float) -> str:
    """Minutes and seconds, hours where there are any."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"


def costs(cls: type[Study], programs: Sequence[Cost]) -> None:
    """The table of a dry run."""
    table = plain_table("part", "sizes", "instances", "missing", "at once", "memory", "seconds", "basis")
    for c in programs:
        sizes = ", ".join(f"{n} = {shown(v) if isinstance(v, tuple) else v}" for n, v in c.sizes.items())
        memory = f"{c.bytes / 2**20:.1f} MiB" if c.bytes else "–"
        table.add_row(
            c.part,
            sizes,
            str(c.instances),
            str(c.missing),
            str(c.instances_at_once),
            memory,
            _seconds(c.seconds),
            c.known_from,
        )
    console = open_console()
    console.print(table)
    console.print(
        f"{cls.name}: {sum(c.instances for c in programs)} instances, {sum(c.missing for c in programs)} missing, "
        f"{len(programs)} programs, about {_seconds(sum(c.seconds for c in programs))} s besides "
        f"{_seconds(sum(c.compile_seconds for c in programs))} s of compilation"
    )


def _seconds(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def _readers(path: Path) -> str:
    """Who can read a file, by its permissions and those of its folders."""
    modes = [each.stat().st_mode for each in (path, *path.resolve().parents)]
    for who, right, enter in (("all users of this machine", 0o004, 0o001), ("your group", 0o040, 0o010)):
        if modes[0] & right and all(mode & enter for mode in modes[1:]):
            return who
    return "you alone"


def store(opened: Store) -> None:
    """Where a store is and what it holds."""
    from unlazy.lab import registry
    from unlazy.lab.running.fingerprint import fingerprint

    current = {s.name: fingerprint(s) for s in registry.all_studies()}
    # A damaged file is told before anything is shown of it.
    contents, made_by = opened.contents(), opened.made_by()
    console = open_console()
    size = opened.path.stat().st_size / 2**20
    console.print(f"{opened.path} ({size:.1f} MiB, can be read by {_readers(opened.path)})")
    table = plain_table("study", "instances", "MiB", "seconds", "state")
    for c in contents:
        state = "own file" if c.study not in current else "current" if current[c.study] == c.fingerprint else "stale"
        table.add_row(c.study, str(c.instances), f"{c.bytes / 2**20:.2f}", f"{c.seconds:.1f}", state)
    console.print(table)
    if damage := opened.damage():
        console.print(damage)
    wrong: Counter[str] = Counter()
    for versions, instances in made_by.items():
        if jaxlib := made_wrong(versions):
            wrong[jaxlib] += instances
    for jaxlib, instances in wrong.items():
        console.print(
            f"{instances} instances were made by jaxlib {jaxlib}, which computes wrong numbers: they are computed "
            "again when they are asked for; 'unlazy store prune' deletes them"
        )
