"""How a study is computed: planned, executed, proven, stored and judged."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.lab.running import (
        arithmetic,
        child,
        cluster,
        confirm,
        cost,
        dataset,
        events,
        evidence,
        execute,
        fingerprint,
        laboratory,
        lines,
        outputs,
        pack,
        packing,
        plan,
        processes,
        proof,
        reproduce,
        result,
        run,
        saved,
        store,
        trials,
        worker,
    )

lazily(__name__)
