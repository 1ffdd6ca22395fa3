"""The machinery that runs studies; it knows no particular one.

Everything that the file of a study needs from it is here by name.
"""

from unlazy.lab.claims import Claim, Verdict, at_least, at_most, between, exceeds, parameter, relative_deviation, slope
from unlazy.lab.parameters import path, static, value
from unlazy.lab.study import DIVERGED_AT, Output, Part, Source, Study

__all__ = [
    "DIVERGED_AT",
    "Claim",
    "Output",
    "Part",
    "Source",
    "Study",
    "Verdict",
    "at_least",
    "at_most",
    "between",
    "exceeds",
    "parameter",
    "path",
    "relative_deviation",
    "slope",
    "static",
    "value",
]
