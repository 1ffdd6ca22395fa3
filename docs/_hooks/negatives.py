"""What did not reproduce: every claim with a known negative, from the studies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gallery import badge, measured
from text import code, plain, said

from unlazy.lab.study import Study
from unlazy.reporting.html.report import topic_title


def negatives(studies: Sequence[type[Study]], stored: Mapping[str, Mapping[str, Any]]) -> str:
    """The claims that are known not to hold, by topic."""
    claims = [(study, claim) for study in studies for claim in study.claims]
    known = [(study, claim) for study, claim in claims if claim.known_negative]
    parts = [f"{len(known)} of {len(claims)} claims, in {len({study.name for study, _ in known})} studies."]
    for topic in dict.fromkeys(study.topic for study, _ in known):
        parts.append(f"## {topic_title(topic).capitalize()}")
        for study, claim in known:
            if study.topic != topic:
                continue
            section = stored.get(study.name)
            judged = next((c for c in section["claims"] if c["id"] == claim.id), None) if section else None
            facts = [f"Criterion: {code(claim.criterion)}"]
            facts += measured(judged) if judged else ["not in this build's store"]
            verdict = badge(judged["verdict"], judged["word"]) + " " if judged else ""
            parts += [
                f"### {study.name}: {claim.id}",
                f"{verdict}{said(claim.statement)} ({plain(claim.source)})",
                f'<p class="facts">{" · ".join(facts)}</p>',
                f'<p class="negative"><strong>Why.</strong> {said(claim.known_negative)}</p>',
                f"[The study](gallery/{study.name}.md)",
            ]
    return "\n\n".join(parts)
