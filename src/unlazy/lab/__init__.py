"""What a study is, and the machinery that runs one; it knows no particular study.

Everything that the file of a study needs is here by name.
"""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.lab import (
        catalogue,
        claims,
        grid,
        judge,
        measures,
        new,
        parameters,
        parse,
        registry,
        running,
        sources,
        study,
    )
    from unlazy.lab.claims import OWN, Change, Missing, Verdict, at_least, at_most, between, changes, claim, within
    from unlazy.lab.measures import (
        crossing,
        difference,
        enough,
        kept,
        needs,
        over_theory,
        parameter,
        relative_deviation,
        slope,
    )
    from unlazy.lab.parameters import path, static, value
    from unlazy.lab.sources import Source, cite
    from unlazy.lab.study import DIVERGED_AT, Output, Part, Study

lazily(__name__)
