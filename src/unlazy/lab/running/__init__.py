"""How a study is computed: planned, executed, proven, stored and judged."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.lab.running import (
        arithmetic,
        cluster,
        dataset,
        estimate,
        execute,
        fingerprint,
        laboratory,
        outlook,
        outputs,
        plan,
        processes,
        progress,
        proof,
        reproduce,
        result,
        run,
        saved,
        store,
        trials,
    )

lazily(__name__)
