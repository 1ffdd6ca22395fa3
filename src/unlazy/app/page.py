# /// script
# [tool.marimo.display]
# theme = "system"
# ///
# ruff: noqa: B018 (the last expression of a cell is what it shows)
"""The explorer's page. It lays out; what it shows is made in the modules beside it."""

import marimo

app = marimo.App(width="full", app_title="unlazy explorer", css_file="page.css")


@app.cell
def imports():
    import html
    import os
    from urllib.parse import urlencode

    import marimo as mo

    from unlazy.app import choices, picture
    from unlazy.app import setting as settings
    from unlazy.app.controls import control
    from unlazy.app.evaluator import EVALUATOR, LONG_DEADLINE
    from unlazy.app.job import Job, first_look, follow
    from unlazy.app.server import OWN_STORE, OWN_STUDY
    from unlazy.app.theory import PATIENCE
    from unlazy.app.words import failure, progress, sources, theory_note, what_you_see
    from unlazy.app.words import wrong as told
    from unlazy.checks import InputError
    from unlazy.lab import registry
    from unlazy.words import plain

    return (
        EVALUATOR, InputError, Job, LONG_DEADLINE, OWN_STORE, OWN_STUDY, PATIENCE, choices, control, failure,
        first_look, follow, html, mo, os, picture, plain, progress, registry, settings, sources, theory_note, told,
        urlencode, what_you_see,
    )  # fmt: skip


@app.cell
def arguments(InputError, OWN_STORE, OWN_STUDY, mo, os, registry, settings):
    store = os.environ.get(OWN_STORE) or None
    own = registry.find(os.environ[OWN_STUDY]) if os.environ.get(OWN_STUDY) else None
    kept = {}
    wrong_link = None
    try:
        asked = settings.from_query(dict(mo.query_params().to_dict()), own)
    except InputError as _error:
        asked, wrong_link = None, str(_error)
    first = asked or settings.default_setting(own or registry.find("ridge-equivalent"))
    if asked is not None:
        kept.update({(asked.study.name, asked.part, n): v for n, v in asked.values.items()})
    _request = mo.app_meta().request
    # The address as the visitor's browser knows it; the gate has checked it.
    address = f"http://{_request.headers['host']}/" if _request is not None else "/"
    visit = str((_request.query_params.get("session_id") or [""])[0]) if _request is not None else ""
    return address, first, kept, own, store, visit, wrong_link


@app.cell
def heading(mo, told, wrong_link):
    mo.vstack(
        [
            mo.Html(
                '<header class="unlazy-head"><h1>unlazy explorer</h1><p>The theory as lines, the finite system as '
                "points.</p></header>"
            ),
            mo.callout(mo.Html(told(f"The link cannot be followed: {wrong_link}")), kind="danger")
            if wrong_link
            else mo.Html(""),
        ]
    )
    return


@app.cell
def topics(first, mo, own, registry):
    topic_of = registry.topic_of()
    if own is not None:
        topic_of = {own.name: own.topic, **topic_of}
    topic = mo.ui.dropdown(
        {"all topics": "", **{t.replace("_", " "): t for t in sorted(set(topic_of.values()))}},
        value="all topics",
        label="Topic",
    )
    return topic, topic_of


@app.cell
def studies(first, mo, topic, topic_of):
    _names = [name for name, t in topic_of.items() if topic.value in ("", t)]
    chosen = mo.ui.dropdown(
        _names,
        value=first.study.name if first.study.name in _names else _names[0],
        label="Study",
        searchable=True,
        allow_select_none=False,
    )
    return (chosen,)


@app.cell
def study_class(chosen, own, settings):
    study = settings.find_study(chosen.value, own)
    return (study,)


@app.cell
def part_choice(choices, first, mo, study):
    _names = list(choices.parts(study))
    part = mo.ui.dropdown(
        _names,
        value=first.part if first.study is study else _names[0],
        label="Start from",
        allow_select_none=False,
    )
    return (part,)


@app.cell
def chooser(choices, chosen, mo, part, sources, study, topic):
    mo.vstack(
        [
            mo.hstack(
                [topic, chosen, *([part] if len(choices.parts(study)) > 1 else [])], justify="start", wrap=True, gap=1
            ),
            mo.Html(sources(study)),
        ]
    )
    return


@app.cell
def across(choices, first, mo, part, settings, study):
    start = first if first.study is study and first.part == part.value else settings.default_setting(study, part.value)
    _across = {f"{words} ({name})": name for name, words in choices.horizontals(study, part.value).items()}
    horizontal = mo.ui.dropdown(
        _across,
        value=next(words for words, name in _across.items() if name == start.x),
        label="Horizontal axis",
        full_width=True,
        searchable=True,
        allow_select_none=False,
    )
    horizontal
    return horizontal, start


@app.cell
def along(choices, horizontal, mo, part, start, study):
    _along = {f"{words} ({name})": name for name, words in choices.curve_choices(study, horizontal.value).items()}
    _first = next((n for n in start.over if n != start.x and n != horizontal.value), None)
    curves = mo.ui.dropdown(
        _along,
        value=next((words for words, name in _along.items() if name == _first), None),
        label="A curve for each",
        full_width=True,
        searchable=True,
    )
    axis = None
    if horizontal.value in study.parameters():
        axis = mo.ui.text(
            start.over.get(horizontal.value, choices.default_axis(study, part.value, horizontal.value)),
            label="Its values",
            full_width=True,
        )
    _hint = mo.Html('<p class="unlazy-soft">A list, as 1,2,4, or a range with its number of points, as 1:8:4.</p>')
    mo.vstack([*([axis, _hint] if axis is not None else []), curves])
    return axis, curves


@app.cell
def curves_values(choices, curves, mo, part, start, study):
    family = None
    if curves.value:
        family = mo.ui.text(
            start.over.get(curves.value, choices.default_axis(study, part.value, curves.value)),
            label="Its values",
            full_width=True,
        )
    family
    return (family,)


@app.cell
def shown(LONG_DEADLINE, PATIENCE, choices, mo, start, study):
    _words = choices.output_words(study)
    outputs = mo.ui.multiselect(
        {words: name for name, words in _words.items()},
        value=[_words[name] for name in start.outputs],
        label="Show",
        full_width=True,
        max_selections=4,
    )
    slow = mo.ui.switch(label="Slow theory")
    _hint = mo.Html(
        f'<p class="unlazy-soft">Theory that takes more than {PATIENCE:.0f} s is left out, so that sliders answer. '
        f"Switched on, it is computed, for at most {LONG_DEADLINE:.0f} s after each move.</p>"
    )
    mo.vstack([outputs, slow, _hint])
    return outputs, slow


@app.cell
def parameters(choices, control, curves, horizontal, kept, mo, part, start, study):
    def _make(made):
        if made.kind == "slider":
            return mo.ui.slider(
                steps=list(made.options), value=made.value, label=made.label, show_value=True, full_width=True
            )
        if made.kind == "switch":
            return mo.ui.switch(made.value, label=made.label)
        if made.kind == "choice":
            return mo.ui.dropdown(
                {str(option): option for option in made.options}, value=str(made.value), label=made.label,
                allow_select_none=False, full_width=True,
            )  # fmt: skip
        return mo.ui.text(str(made.value), label=made.label, full_width=True)

    _grid = choices.parts(study)[part.value]
    _first = next(_grid.points())
    _known = {n: [v for a in _grid.axes if n in a.names for v in a.column(n)] for n in study.parameters()}
    _values = {
        name: kept.get((study.name, part.value, name), start.values.get(name, _first[name]))
        for name in study.parameters()
        if name not in (horizontal.value, curves.value)
    }
    knobs = mo.ui.dictionary({n: _make(control(study.parameter(n), v, _known[n])) for n, v in _values.items()})
    mo.Html('<div class="unlazy-knobs">' + "".join(f"<div>{k}</div>" for k in knobs.elements.values()) + "</div>")
    return (knobs,)


@app.cell
def present(InputError, axis, curves, family, horizontal, kept, knobs, outputs, part, seeds, settings, study):
    now, wrong = None, None
    try:
        _over = [f"{horizontal.value}={axis.value}"] if axis is not None else []
        _over += [f"{curves.value}={family.value}"] if family is not None else []
        now = settings.make_setting(
            study, part.value, horizontal.value,
            [f"{name}={settings.as_text(value)}" for name, value in knobs.value.items()],
            _over, seeds.value, outputs.value,
        )  # fmt: skip
        kept.update({(study.name, part.value, name): value for name, value in now.values.items()})
    except InputError as _error:
        wrong = str(_error)
    return now, wrong


@app.cell
def numbers(EVALUATOR, failure, finished, now, picture, slow, store):
    finished()
    theory, points, trouble, drawn = None, None, None, []
    if now is not None:
        try:
            points = picture.stored(now, store)
            theory = EVALUATOR.lines(now, slow.value)
            drawn = picture.drawn_outputs(now, theory, points)
        except Exception as _error:
            trouble = failure(_error)
    # A page that would open without a picture gets one by itself.
    empty = theory is not None and not drawn
    return drawn, empty, points, theory, trouble


@app.cell
def figure(drawn, failure, html, mo, now, picture, points, theory, theory_note, told, trouble, what_you_see, wrong):
    _shown = []
    if wrong or trouble:
        _shown.append(mo.callout(mo.Html(told(wrong or trouble)), kind="warn"))
    if theory is not None:
        try:
            _drawn = [
                f'<figure class="unlazy-panel">{picture.panel(now, theory, points, name)}</figure>' for name in drawn
            ]
            _shown.append(mo.Html(f'<div class="unlazy-panels">{"".join(_drawn)}</div>'))
        except Exception as _error:
            _shown.append(mo.callout(mo.Html(told(failure(_error))), kind="warn"))
        _seen = html.escape(what_you_see(now, drawn, theory, points))
        _shown.append(mo.Html(f'<p class="unlazy-seen">{_seen}</p>' if _seen else ""))
        _shown.append(mo.Html(f'<p class="unlazy-soft">{theory_note(now, theory, points)}</p>'))
    mo.vstack(_shown)
    return


@app.cell
def simulation(first, mo):
    seeds = mo.ui.slider(steps=[1, 2, 4, 8, 16, 32, 64], value=first.seeds if first.seeds in (1, 2, 4, 8, 16, 32, 64)
                         else 4, label="Seeds per point", show_value=True)  # fmt: skip
    limit = mo.ui.dropdown(
        {"1 minute": 60.0, "10 minutes": 600.0, "1 hour": 3600.0}, value="1 minute", label="At most",
        allow_select_none=False,
    )  # fmt: skip
    run = mo.ui.run_button(label="Add simulated points", kind="success")
    cancel = mo.ui.run_button(label="Cancel")
    finished, set_finished = mo.state(0)
    mo.hstack([run, cancel, seeds, limit], justify="start", align="center", wrap=True, gap=1)
    return cancel, finished, limit, run, seeds, set_finished


@app.cell
def job_list():
    jobs: list = []
    begun: set = set()
    return begun, jobs


@app.cell
def progress_bar(
    Job, begun, empty, first_look, follow, jobs, limit, mo, now, progress, run, set_finished, store, visit
):
    def _tell(event, job):
        mo.output.replace(mo.Html(progress(event, job)))

    _asked = now if run.value else None
    if now is not None and empty and (now.study.name, now.part) not in begun:
        begun.add((now.study.name, now.part))
        _asked = _asked or first_look(now)
    if _asked is not None:
        for _old in jobs:
            _old.cancel()
        jobs.append(Job(_asked, store, limit.value, visit=visit))
        mo.output.replace(mo.Html(progress(None)))
        _count = len(jobs)
        mo.Thread(target=follow, args=(jobs[-1], _tell, lambda: set_finished(_count)), daemon=True).start()
    return


@app.cell
def cancelling(cancel, jobs):
    if cancel.value:
        for _job in jobs:
            _job.cancel()
    return


@app.cell
def share(address, html, mo, now, plain, store, urlencode):
    _share = mo.Html("")
    if now is not None:
        _link = html.escape(f"{address}?{urlencode(now.query)}")
        _command = html.escape(plain(now.command()))
        _own = " Add --store and your file to use the store that the explorer was started with." if store else ""
        _share = mo.Html(
            '<h2 class="unlazy-h2">This setting</h2><p class="unlazy-soft">As a command, which '
            f"runs what is shown; a click selects it.{_own}</p>"
            f'<pre class="unlazy-copy unlazy-command">{_command}</pre>'
            f'<p class="unlazy-soft">As a link: <a class="unlazy-link" href="{_link}">open it again</a></p>'
            f'<pre class="unlazy-copy">{_link}</pre>'
        )
    _share
    return


@app.cell
def files(mo, now, picture, points, theory):
    _files = mo.Html("")
    if now is not None and theory is not None and (theory.dataset is not None or points is not None):
        _name = f"unlazy-{now.study.name}"
        _files = mo.hstack(
            [
                *(
                    mo.download(
                        lambda kind=kind: picture.figure_bytes(now, theory, points, kind), f"{_name}.{kind}",
                        label=kind.upper(),
                    )
                    for kind in ("svg", "png", "pdf")
                ),
                mo.download(lambda: picture.table(theory, points), f"{_name}.csv", label="CSV"),
                mo.download(lambda: picture.netcdf(theory, points), f"{_name}.nc", label="netCDF"),
            ],
            justify="start",
            wrap=True,
        )  # fmt: skip
    _files
    return


if __name__ == "__main__":
    app.run()
