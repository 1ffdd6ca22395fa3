"""A setting of the explorer, and its three forms: a grid, a link's query and a command line.

Text comes from links and fields, so that it is read by the laboratory's own parser and by nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from unlazy.app.choices import (
    PRESET,
    default_axis,
    drawable,
    first_horizontal,
    first_outputs,
    horizontals,
    is_listable,
    is_numeric,
    parts,
)
from unlazy.checks import InputError, check_choice, check_whole, suggest
from unlazy.lab import registry
from unlazy.lab.grid import ParameterGrid, preset_grids
from unlazy.lab.parse import as_text, parse_over, parse_set
from unlazy.lab.running.dataset import inner_coordinates
from unlazy.lab.running.run import command_line
from unlazy.lab.study import Study, remembered

MOST_SEEDS = 64
MOST_POINTS = 200
"""More points than this are a run for the command line, not for a page."""
DEFAULT_SEEDS = 4
FIELDS = ("study", "part", "x", "set", "over", "seeds", "show")
_BETWEEN = ";"
"""Between the entries of a field of a link; marimo keeps only one of several fields of the same name."""
_MOST_TEXT = 2000
_MOST_NAME = 80
_MOST_CURVES = 7


@dataclass(frozen=True)
class ExplorerSetting:
    """What the explorer shows: a study, one value for each parameter that stands still, and what varies.

    `over` has the axes as text, in the command line's form; `x` is the dimension on the horizontal axis: a parameter
    of `over`, or a dimension of the outputs.
    """

    study: type[Study]
    part: str
    x: str
    values: Mapping[str, Any]
    over: Mapping[str, str]
    seeds: int
    outputs: tuple[str, ...]

    @cached_property
    def grid(self) -> ParameterGrid:
        """The points to simulate, as the command line has them."""
        options: dict[str, Any] = {"set": self.values, "over": self.axes, "seeds": self.seeds, "part": self.part}
        return preset_grids(self.study, PRESET, **options)[self.part]

    def lines(self, count: int = 60) -> ParameterGrid:
        """The grid of the theory: denser along the horizontal axis where that is a number."""
        parameter = self.study.parameters().get(self.x)
        if parameter is None or not is_numeric(parameter) or parameter.choices is not None:
            return self.grid
        return self.grid.denser(self.x, count)

    @property
    def query(self) -> list[tuple[str, str]]:
        """The fields of the link to this setting, in order."""
        return [
            ("study", self.study.name),
            ("part", self.part),
            ("x", self.x),
            *_joined("set", [f"{name}={as_text(value)}" for name, value in self.values.items()]),
            *_joined("over", [f"{name}={text}" for name, text in self.over.items()]),
            ("seeds", str(self.seeds)),
            *_joined("show", self.outputs),
        ]

    def command(self) -> str:
        """The shell command that simulates these points; it fixes only what the part does not have already.

        It names no folder of this machine: a user's own study is called by the name of its file.
        """
        import shlex

        known = preset_grids(self.study, PRESET, over=self.axes, part=self.part)[self.part].parameters()
        fixed = {n: v for n, v in self.values.items() if n not in known or known[n] != v}
        part = self.part if len(parts(self.study)) > 1 else None
        words = command_line(self.study, PRESET, fixed, self.over, self.seeds, part=part)
        reference = registry.reference(self.study)
        return words.replace(shlex.quote(reference), shlex.quote(re.split(r"[/\\]", reference)[-1]))

    @cached_property
    def axes(self) -> dict[str, list]:
        """What varies, by parameter."""
        return parse_over(self.study, [f"{name}={text}" for name, text in self.over.items()])


def make_setting(
    study: type[Study],
    part: str,
    x: str,
    fixed: Iterable[str],
    over: Iterable[str],
    seeds: Any = DEFAULT_SEEDS,
    outputs: Iterable[str] = (),
) -> ExplorerSetting:
    """A checked setting from text; parameters that are not named have their default of that part."""
    start = default_setting(study, check_choice("part", part, parts(study)))
    fixed, over = list(fixed), list(over)
    _check_size([*fixed, *over])
    parsed = parse_set(study, fixed)
    texts = dict(_pair(study, entry) for entry in over)
    axes = parse_over(study, over)
    both = parsed.keys() & axes.keys()
    if both:
        raise InputError(f"parameter {sorted(both)[0]!r} is given both as one value and as an axis; give one")
    check_choice("x", x, horizontals(study, part))
    parameter = study.parameters().get(x)
    if parameter is not None and x not in axes:
        if parameter.kind != "path":
            raise InputError(f"x is {x!r}, which does not vary; give it an axis, as in over={x}=A,B,C")
        texts[x] = as_text(parsed.pop(x, start.values.get(x, parameter.default)))
    values = {
        name: parsed[name] if name in parsed else start.values.get(name, p.coerce(p.default))
        for name, p in study.parameters().items()
        if name not in texts
    }
    try:
        seeds = int(seeds)
    except (TypeError, ValueError):
        raise InputError(f"seeds must be an integer >= 1 and <= {MOST_SEEDS}, got {seeds!r}") from None
    seeds = check_whole("seeds", seeds, 1, MOST_SEEDS)
    shown = tuple(dict.fromkeys(check_choice("show", name, drawable(study)) for name in outputs))
    setting = ExplorerSetting(study, part, x, values, texts, seeds, shown or first_outputs(study, part, x))
    if setting.grid.size > MOST_POINTS:
        raise InputError(f"the axes have {setting.grid.size} points together; the explorer takes at most {MOST_POINTS}")
    setting.grid.validate()
    inner_coordinates(setting.grid)
    return setting


def from_query(query: Mapping[str, str | list[str]], own: type[Study] | None = None) -> ExplorerSetting | None:
    """The setting that a link's query asks for; None if it asks for nothing.

    A link names a study of the package or `own`, the one that the command line named: never a file.
    """
    fields = {name: [text] if isinstance(text, str) else list(text) for name, text in query.items()}
    for name in fields:
        check_choice("field of the link", name, FIELDS)
        if name in ("set", "over", "show"):
            fields[name] = [entry for text in fields[name] for entry in text.split(_BETWEEN) if entry]
    if not fields:
        return None if own is None else default_setting(own)
    for name in ("study", "part", "x", "seeds"):
        if len(fields.get(name, ())) > 1:
            raise InputError(f"the link has the field {name!r} twice")
    if "study" not in fields:
        raise InputError("the link names no study; it must have study=NAME")
    study = find_study(fields["study"][0], own)
    part = fields.get("part", [next(iter(parts(study)))])[0]
    start = default_setting(study, check_choice("part", part, parts(study)))
    x = check_choice("x", fields.get("x", [start.x])[0], horizontals(study, part))
    over = fields.get("over")
    if over is None:
        # A link that varies nothing itself varies what the part does, without what it fixes.
        fixed = {_pair(study, entry)[0] for entry in fields.get("set", ())}
        over = [f"{name}={text}" for name, text in start.over.items() if name not in fixed or name == x]
        if x in study.parameters() and study.parameter(x).kind != "path" and x not in start.over:
            over.insert(0, f"{x}={default_axis(study, part, x)}")
    return make_setting(
        study, part, x, fields.get("set", ()), over, fields.get("seeds", [DEFAULT_SEEDS])[0], fields.get("show", ())
    )


def grouped(query: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The fields of a link with all their entries, as `from_query` reads them."""
    found: dict[str, list[str]] = {}
    for name, text in query:
        found.setdefault(name, []).append(text)
    return found


def find_study(name: str, own: type[Study] | None = None) -> type[Study]:
    """A study of the package by name, or `own` if that is its name."""
    if own is not None and name == own.name:
        return own
    known = registry.names()
    if name not in known:
        # `registry.find` would import a file that a link names; all the names would fill the page.
        near = suggest(name[:_MOST_NAME], [*known, *([own.name] if own else [])])
        raise InputError(f"study must be one that `unlazy list` names, got {name[:_MOST_NAME]!r}{near}")
    return registry.find(name)


@remembered
def default_setting(study: type[Study], part: str | None = None) -> ExplorerSetting:
    """What the explorer shows first of a study: its first part, or the named one, of the quick preset.

    It has at most one axis besides the horizontal one; other axes of the part stand at their first value.
    """
    grids = parts(study)
    part = next(iter(grids)) if part is None else part
    grid = grids[part]
    x = first_horizontal(study, part)
    over = {}
    if x in study.parameters():
        over[x] = default_axis(study, part, x)
    for axis in grid.axes:
        column = axis.column(axis.dim)
        if len(axis.names) == 1 and axis.dim != x and 1 < len(column) <= _MOST_CURVES and is_listable(column):
            over[axis.dim] = as_text(column)
            break
    first = next(grid.points())
    values = {name: first[name] for name in study.parameters() if name not in over}
    return ExplorerSetting(study, part, x, values, over, min(grid.seeds, DEFAULT_SEEDS), first_outputs(study, part, x))


def _joined(name: str, entries: Iterable[str]) -> list[tuple[str, str]]:
    text = _BETWEEN.join(entries)
    return [(name, text)] if text else []


def _pair(study: type[Study], entry: str) -> tuple[str, str]:
    name, _, text = entry.partition("=")
    return study.parameter(name.strip().replace("-", "_")).name, text.strip()


def _check_size(entries: Iterable[str]) -> None:
    """Refuse a range of a billion steps before it is made."""
    for entry in entries:
        if len(entry) > _MOST_TEXT:
            raise InputError(f"an entry must have at most {_MOST_TEXT} characters, got {len(entry)}: {entry[:40]!r}...")
        name, _, text = entry.partition("=")
        counts = [re.fullmatch(r"[^:]*:[^:]*:\s*(\d+)\s*(?::\s*(?:log|lin))?", item) for item in text.split(",")]
        total = sum(int(found[1]) if found else 1 for found in counts)
        if total > MOST_POINTS:
            raise InputError(f"{name} has {total} values; the explorer takes at most {MOST_POINTS}")
