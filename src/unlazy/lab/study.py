"""What a study is: parameters, a question, its sources, and a few methods.

A study is a frozen dataclass that derives from `Study`. Its fields are its parameters, of three kinds: `static` changes
shapes or the program, `value` is a traced number, `path` is a vector that one instance evaluates at once.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, cast

from unlazy.checks import InputError, stamp, suggest
from unlazy.lab.claims import Change, Claim, noted
from unlazy.lab.parameters import Parameter
from unlazy.lab.sources import Source
from unlazy.words import brief

if TYPE_CHECKING:
    import xarray as xr

    from unlazy.plotting.panels import Panels


Function = TypeVar("Function", bound=Callable)


@dataclass(frozen=True)
class Output:
    """A result's label, symbol (TeX) and dimensions beyond the grid's.

    `predicts` names the simulated output of which this one is the theory for the drawn instance; `theory_only` marks a
    result that `predict` gives and `simulate` does not. Outputs are finite numbers, but `undefined` (NaN or inf) stands
    for one that has no value, such as a time that never comes, and `only` names the values of parameters at which
    instances have this output at all. One called `diverged_at` is -1 unless the instance diverged: then the others are
    no results.
    """

    label: str
    symbol: str = ""
    dims: tuple[str, ...] = ()
    scale: str = "linear"
    predicts: str | None = None
    theory_only: bool = False
    undefined: float | None = None
    only: Mapping[str, tuple] = dataclasses.field(default_factory=dict)
    short: str = ""
    """The label where there is little room: in legends and on the axes of figures."""
    unpredicted: str = ""
    """Where the theory has no number for it, in words: `predict` returns NaN there."""
    infinite: str = ""
    """What it means, in words, that the theory's number is infinite; 'it never comes there' if that is `undefined`."""


DIVERGED_AT = Output("first step at which training diverged, -1 if it did not")
"""Of a study whose training may diverge."""


class Part(NamedTuple):
    """One part of a run as claims see it: `simulated` has dimension `seed`, `predicted` is the theory at its points.

    Of a study without `predict`, `predicted` is None.
    """

    simulated: xr.Dataset
    predicted: Any


class Study:
    """The base of all studies. A subclass is a frozen dataclass in a file of its own.

    `simulate(self, key)` is traced by JAX; `simulate(self, rng)` is hosted: it gets a NumPy Generator. A hosted one
    whose instances take long says `simulate(self, rng, saved)` and keeps its state in `saved` (`lab.running.saved`).
    """

    name: ClassVar[str]
    """That of the file in the package, that of the class elsewhere."""
    topic: ClassVar[str] = "own"
    """That of the folder in the package."""
    question: ClassVar[str]
    sources: ClassVar[tuple[Source, ...]]
    outputs: ClassVar[Mapping[str, Output]]
    presets: ClassVar[Mapping[str, Mapping]]
    inner: ClassVar[Mapping[str, Any]] = {}
    """The coordinates of output dimensions that are no path, where they are the same for all parameters."""
    claims: ClassVar[tuple[Claim, ...]] = ()
    """Those of the functions under `@claim`, in their order."""
    departs: ClassVar[str] = ""
    """In one sentence, how what is simulated differs from what the sources state; empty where nothing does."""
    history: ClassVar[tuple[Change, ...]] = ()
    """Criteria, sizes and settings that were chosen or changed after a look."""
    figure: ClassVar[Panels | None] = None
    """What `panels` made; without one the lab draws its own."""
    theory_for: ClassVar[Mapping[str, tuple]] = {}
    """The values of parameters at which `predict` returns anything, where it does so at some alone."""
    lines: ClassVar[Mapping[str, str]] = {}
    """Part -> the axis along which the theory is drawn on a denser grid."""
    broadcasts: ClassVar[tuple[str, ...]] = ()
    """Parameters of which `predict` also takes arrays, so that one call serves many points: floats with as many axes of
    length 1 behind that of the points as outputs have dimensions. It returns arrays with the points first."""
    precision: ClassVar[str] = "float64"
    chunk_width: ClassVar[int] = 8
    """How many instances one compiled call of a traced study advances together, at most."""
    agreement: ClassVar[float | None] = None
    """How far an output may be, of its largest entry, from the same in another program, which rounds in another order:
    1e-8 in double precision and 1e-3 in single if None; infinitely far in a chaotic system."""

    loaded: ClassVar[tuple[int, ...]] = ()
    """The stamp of the file when the class was made."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        cls.loaded = stamp(Path(file)) if file else ()
        folders = cls.__module__.split(".")
        if folders[:2] == ["unlazy", "studies"] and len(folders) == 4:
            cls.topic, cls.name = folders[2], folders[-1].replace("_", "-")
        elif "name" not in vars(cls):
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()
        found = [value for value in vars(cls).values() if isinstance(value, Claim)]
        cls.claims = (*cls.claims, *(_completed(claim, cls) for claim in found))

    def validate(self) -> None:
        """Raise InputError where parameters do not fit together; ranges of single ones stand in their fields."""

    def check_at_most(self, *pairs: tuple[str, str]) -> None:
        """Raise InputError where the first parameter of a pair is larger than the second, which bounds it."""
        for small, large in pairs:
            count, bound = getattr(self, small), getattr(self, large)
            if count > bound:
                raise InputError(f"{small} must be at most {large} = {bound}, got {count}")

    def check_some(self, *ratios: str) -> None:
        """Raise InputError where a ratio to the dimension d rounds to none at all: no sample, no neuron."""
        for name in ratios:
            if round(getattr(self, name) * self.d) < 1:  # type: ignore[attr-defined]
                least = 0.5 / self.d  # type: ignore[attr-defined]
                raise InputError(
                    f"{name} must be above 1 / (2 d) = {least:g}, or there is none; got {getattr(self, name)}"
                )

    def simulate(self, randomness: Any) -> Mapping[str, Any]:
        """One instance of the finite system: a pure function of the parameters and the randomness."""
        raise NotImplementedError

    def predict(self) -> Mapping[str, Any]:
        """The theory for the same parameters, under the names of the outputs it predicts."""
        raise NotImplementedError

    def memory(self) -> int:
        """About how many bytes one instance of a hosted study needs; 0 if that is little or not known.

        A traced study need not say it: its compiled program does.
        """
        return 0

    def files(self) -> tuple[Path, ...]:
        """The files that `simulate` reads: a stored result is known by their content, as by the parameters."""
        return ()

    def derive(self, simulated: xr.Dataset) -> xr.Dataset | None:
        """Semi-empirical curves: theory that needs a measured number."""
        return None

    def coordinates(self) -> Mapping[str, Any]:
        """The coordinates of output dimensions that are not path parameters."""
        return self.inner

    @classmethod
    @cache
    def parameters(cls) -> Mapping[str, Parameter]:
        """The declared parameters by name."""
        found = {}
        for f in dataclasses.fields(cls):  # type: ignore[arg-type]
            declared: Parameter = f.metadata["parameter"]
            if f.type in ("float", float) and type(declared.default) is int:
                declared = dataclasses.replace(declared, default=float(declared.default))
            found[f.name] = dataclasses.replace(declared, name=f.name)
        return MappingProxyType(found)

    @classmethod
    def simulated_outputs(cls) -> list[str]:
        """The outputs that `simulate` returns."""
        return [name for name, output in cls.outputs.items() if not output.theory_only]

    @classmethod
    def parameter(cls, name: str) -> Parameter:
        """The parameter called `name`, or an InputError with the nearest names."""
        known = cls.parameters()
        if name not in known:
            listed = ", ".join(known)
            raise InputError(f"{cls.name} has no parameter {brief(name)}{suggest(name, known)}; it has {listed}")
        return known[name]

    @classmethod
    def defines(cls, method: str) -> bool:
        """Whether the study defines the optional method itself."""
        return getattr(cls, method) is not getattr(Study, method)

    @classmethod
    def accepts(cls, point: Mapping[str, Any]) -> bool:
        """Whether the study takes these parameters together."""
        try:
            cls(**point).validate()
        except InputError:
            return False
        return True

    @classmethod
    def is_hosted(cls) -> bool:
        """Whether `simulate` takes a NumPy Generator instead of a JAX key."""
        return "rng" in inspect.signature(cls.simulate).parameters

    @classmethod
    def saves(cls) -> bool:
        """Whether `simulate` keeps its state between segments: it takes a `Saved` besides the Generator."""
        return "saved" in inspect.signature(cls.simulate).parameters

    @classmethod
    def theory_in_words(cls) -> str:
        """'for kind = small': where there is a theory, if not everywhere."""
        named = (f"{name} = {' or '.join(map(str, values))}" for name, values in cls.theory_for.items())
        return f"for {', '.join(named)}" if cls.theory_for else ""

    @classmethod
    def notes(cls) -> tuple[str, ...]:
        """What stands beside the verdicts of all its claims."""
        return noted(None, cls.departs, (change for change in cls.history if not change.claim))

    def as_dict(self, *names: str, **renamed: str) -> dict[str, Any]:
        """The parameters by name: all, or some, also under other names, as arguments of what is to be run."""
        wanted = dict(zip(names, names, strict=True)) | renamed or dict.fromkeys(self.parameters())
        return {name: getattr(self, own or name) for name, own in wanted.items()}


def _completed(claim: Claim, study: type[Study]) -> Claim:
    """The claim with what its study knows of it: its source in words, how the study departs, what was changed."""
    short = {source.key: source.short for source in getattr(study, "sources", ())}
    names = "; ".join(short.get(key, key) for key in claim.keys) or "this project"
    return dataclasses.replace(
        claim,
        source=", ".join(filter(None, (names, claim.place))),
        study_departs=study.departs,
        history=tuple(change for change in study.history if change.claim in ("", claim.id)),
    )


def remembered(function: Function) -> Function:
    """`functools.cache` for functions of study classes, which type checkers do not take for hashable."""
    return cast(Function, cache(function))


def preset_parts(preset: Mapping) -> Mapping[str, Mapping]:
    """The parts of a preset by name; a preset of one part need not name it."""
    if preset and all(isinstance(grid, Mapping) for grid in preset.values()):
        return preset
    return {"main": preset}


def check_definition(cls: type[Study]) -> type[Study]:
    """Return the study class if it is whole, or say what its author has to add."""

    def wrong(message: str) -> InputError:
        return InputError(f"study {getattr(cls, 'name', cls.__name__)}: {message}")

    if not (dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen):
        raise wrong("the class must be decorated with @dataclass(frozen=True)")
    for attribute in ("name", "topic", "question", "sources", "outputs", "presets"):
        if not hasattr(cls, attribute):
            raise wrong(f"the class attribute {attribute!r} is missing")
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", cls.name):
        raise wrong("the name must be small letters and digits with single dashes between")
    if not isinstance(cls.sources, tuple) or not all(isinstance(source, Source) for source in cls.sources):
        raise wrong("sources must be a tuple of Source")
    for field in dataclasses.fields(cls):
        if "parameter" not in field.metadata:
            raise wrong(f"field {field.name!r} must be declared with static(), value() or path()")
    parameters = cls.parameters()
    for name, parameter in parameters.items():
        if parameter.type not in (int, float, bool, str):
            raise wrong(f"parameter {name!r} must be a number, a switch or a name, got {parameter.default!r}")
        if parameter.type is float and {f.name: f.type for f in dataclasses.fields(cls)}[name] in ("int", int):
            raise wrong(f"parameter {name!r} is declared int but its default is {parameter.default!r}")
        if name in ("seed", "seeds"):
            raise wrong(f"parameter {name!r} has a name that the lab uses; choose another")
        if parameter.kind == "value" and parameter.type not in (int, float):
            raise wrong(f"value parameter {name!r} must be a number; use static() for {parameter.default!r}")
    for name in cls.broadcasts:
        if name not in parameters or parameters[name].kind == "path" or parameters[name].type not in (int, float):
            raise wrong(
                f"broadcasts names {name!r}, which is no parameter that is one number{suggest(name, parameters)}"
            )
    for name, values in cls.theory_for.items():
        if name not in parameters or not isinstance(values, tuple):
            raise wrong(f"theory_for must map parameters to tuples of values, got {name!r}: {values!r}")
    if cls.agreement is not None and not cls.agreement > 0:
        raise wrong(f"agreement must be a number > 0, got {cls.agreement!r}")
    if "quick" not in cls.presets:
        raise wrong("presets must contain 'quick'")
    if not cls.defines("simulate"):
        raise wrong("the method simulate(self, key) or simulate(self, rng) is missing")
    if set(inspect.signature(cls.simulate).parameters) - {"self"} not in ({"key"}, {"rng"}, {"rng", "saved"}):
        raise wrong(
            "simulate must take exactly one argument besides self, called key (JAX) or rng (NumPy); only a hosted one "
            "may also take saved"
        )
    if not cls.outputs:
        raise wrong("outputs must name at least one result")
    taken = sorted(set(parameters) & {*dir(Study), *Study.__annotations__})
    if taken:
        raise wrong(f"parameter {taken[0]!r} has the name of an attribute of Study; choose another")
    clash = set(cls.outputs) & (set(parameters) | {"seed"})
    if clash:
        raise wrong(f"output {sorted(clash)[0]!r} has the name of a parameter or dimension")
    inner = cls(**{name: p.coerce(p.default) for name, p in parameters.items()}).coordinates()
    for name, output in cls.outputs.items():
        unknown_only = sorted(set(output.only) - set(parameters))
        if unknown_only:
            raise wrong(f"output {name!r} is there only for values of {unknown_only[0]!r}, which is no parameter")
        if not all(isinstance(values, tuple) for values in output.only.values()):
            raise wrong(f"only of output {name!r} must map parameters to tuples of values, got {output.only!r}")
        if output.undefined is not None and math.isfinite(output.undefined):
            raise wrong(f"undefined of output {name!r} must be NaN or an infinity, got {output.undefined!r}")
        if output.scale not in ("linear", "log"):
            raise wrong(f"the scale of output {name!r} must be linear or log, got {output.scale!r}")
        for dim in output.dims:
            near = suggest(dim, [name for name, p in parameters.items() if p.kind == "path"])
            if near and dim not in parameters and dim not in inner:
                raise wrong(f"dimension {dim!r} of output {name!r} is no parameter and has no coordinates{near}")
            if dim in parameters and parameters[dim].kind != "path":
                raise wrong(f"dimension {dim!r} of output {name!r} is a parameter that is not declared with path()")
    parts = {part for preset in cls.presets.values() for part in preset_parts(preset)}
    choices = [choice for parameter in parameters.values() for choice in parameter.choices or ()]
    for name in (*cls.outputs, *inner, *parts, *choices):
        if isinstance(name, str) and not name.isprintable():
            raise wrong(f"outputs, dimensions, parts and choices must have names that can be printed, got {name!r}")
    if unknown_parts := sorted(set(cls.lines) - parts):
        raise wrong(f"lines names {unknown_parts[0]!r}, which is no part of a preset")
    known = {source.key for source in cls.sources}
    for claim in cls.claims:
        if not isinstance(claim, Claim):
            raise wrong(f"claims are functions under @claim; got {claim!r}")
        for part in claim.parts:
            if part not in parts:
                raise wrong(f"claim {claim.id!r} has the argument {part!r}, which is no part{suggest(part, parts)}")
        for key in claim.keys:
            if key not in known:
                raise wrong(f"claim {claim.id!r} is from {key!r}, which is not among the sources{suggest(key, known)}")
    ids = [claim.id for claim in cls.claims]
    if len(set(ids)) < len(ids):
        raise wrong(f"claim ids must differ, got {', '.join(ids)}")
    for change in cls.history:
        if change.claim and change.claim not in ids:
            raise wrong(f"history names claim {change.claim!r}, which there is not{suggest(change.claim, ids)}")
    return cls
