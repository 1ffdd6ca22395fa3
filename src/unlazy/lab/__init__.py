"""What a study is, and the machinery that runs one; it knows no particular study.

Everything that the file of a study needs is here by name.
"""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.lab import claims, figure, grid, judge, parameters, parse, registry, running, study
    from unlazy.lab.claims import (
        Claim,
        Verdict,
        at_least,
        at_most,
        between,
        exceeds,
        parameter,
        relative_deviation,
        slope,
    )
    from unlazy.lab.parameters import path, static, value
    from unlazy.lab.study import DIVERGED_AT, Output, Part, Source, Study

lazily(__name__)
