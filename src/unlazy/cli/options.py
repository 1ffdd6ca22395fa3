"""The options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unlazy.checks import InputError
from unlazy.lab import Study, registry


def complete_study(incomplete: str) -> list[str]:
    return [name for name in registry.names() if name.startswith(incomplete)]


def complete_topic(incomplete: str) -> list[str]:
    return [topic for topic in registry.topics() if topic.startswith(incomplete)]


StudyName = Annotated[
    str, typer.Argument(metavar="STUDY", help="a name, or file.py:Class", autocompletion=complete_study)
]
StudyNames = Annotated[
    list[str] | None, typer.Argument(metavar="STUDY", help="names; all if none", autocompletion=complete_study)
]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="k=v", help="fix a parameter")]
Over = Annotated[list[str] | None, typer.Option("--over", metavar="k=a,b,c|a:b:steps", help="let a parameter vary")]
Preset = Annotated[str, typer.Option(help="quick, or full for the papers' sizes")]
PartName = Annotated[str | None, typer.Option("--part", metavar="NAME", help="one part of the preset; all if none")]
Seeds = Annotated[int | None, typer.Option(help="instances per point, instead of the preset's number")]
Stream = Annotated[str, typer.Option(metavar="NAME", help="which random numbers: another name draws others")]
StoreFile = Annotated[Path | None, typer.Option("--store", metavar="FILE", help="where results are kept")]
Cluster = Annotated[str | None, typer.Option(metavar="ADDRESS", help="tcp://HOST:PORT of a Dask scheduler, or local:N")]
Memory = Annotated[float | None, typer.Option(metavar="GiB", help="memory budget; a quarter of what is free")]
Jobs = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="studies at the same time; one per core if each has 0.5 GiB of the memory budget; at most 4 per core",
    ),
]
Budget = Annotated[
    str | None, typer.Option(metavar="TIME", help="stop after 90s, 30m, 2h; the same command goes on from there")
]
Recorded = Annotated[Path | None, typer.Option("--record", metavar="FILE", help="put the verdicts into this evidence")]
Figure = Annotated[Path | None, typer.Option(metavar="FILE", help="write the figure: .png .svg .pdf")]
Topics = Annotated[list[str] | None, typer.Option("--topic", help="only this topic", autocompletion=complete_topic)]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object and nothing else")]


def chosen_studies(names: list[str] | None, topics: list[str] | None) -> list[type[Study]]:
    """The named studies, those of the topics, or all."""
    if names and topics:
        raise InputError("give either studies or topics, not both")
    return [registry.find(name) for name in dict.fromkeys(names)] if names else registry.all_studies(topics)
