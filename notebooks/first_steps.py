import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="First steps with unlazy")

with app.setup:
    import marimo as mo
    import numpy as np

    import unlazy
    from unlazy.plotting import style


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # First steps

    Theory of learning often ends in a number that a computer could check, and rarely is checked in front of you. unlazy
    does that for dozens of results: it **predicts** the number without training, **simulates** the finite system,
    **compares** the two, and says of each claim whether it holds. This page needs no more than some linear algebra.

    ## One number

    Take $n = 200$ rows of $d = 400$ random inputs and labels with noise. There are more unknowns than equations, so
    linear regression can fit all labels exactly, noise included. Of all exact fits take the one of least norm. How
    wrong is it on new inputs? Theory answers from the sizes and the noise alone, without data:
    """)
    return


@app.cell
def _():
    isotropic = {"n": 200, "d": 400, "spectrum_exponent": 0.0, "prior_exponent": 0.0, "noise_variance": 0.3}
    theory = unlazy.predict("ridge-equivalent", set=isotropic, over={"ridge": [0.0]})
    predicted = theory.risk.item()
    predicted
    return (predicted,)


@app.cell(hide_code=True)
def _():
    mo.md("""
    Do not believe it. Here is the experiment in plain NumPy, with nothing of unlazy in it.
    """)
    return


@app.cell
def _():
    rng = np.random.default_rng(1)
    errors = []
    for _ in range(20):
        inputs, target = rng.standard_normal((200, 400)), rng.standard_normal(400) / np.sqrt(400)
        labels = inputs @ target + np.sqrt(0.3) * rng.standard_normal(200)
        fit = np.linalg.lstsq(inputs, labels, rcond=None)[0]
        errors.append(np.sum((fit - target) ** 2))
    measured = np.mean(errors)
    measured
    return errors, measured


@app.cell(hide_code=True)
def _(errors, measured, predicted):
    spread = np.std(errors, ddof=1) / np.sqrt(len(errors))
    mo.md(f"""
    Predicted {predicted:.3f}, measured {measured:.3f} ± {spread:.3f} in {len(errors)} draws. A system with hundreds of
    random numbers in it has an error that is hardly random, and can be computed.

    ## Move the theory

    The same theory at every number of rows. Without a ridge the error has a peak where the rows are as many as the
    columns: *double descent*. More rows make it worse before they make it better. Move the sliders: what does the noise
    do to the peak, and how little ridge removes it?
    """)
    return


@app.cell(hide_code=True)
def _():
    noise = mo.ui.slider(steps=[0, 0.1, 0.3, 1, 3], value=0.3, label="noise variance", show_value=True)
    ridge = mo.ui.slider(steps=[0.003, 0.01, 0.03, 0.1, 0.3, 1, 3], value=0.03, label="ridge", show_value=True)
    mo.hstack([noise, ridge], justify="start", gap=2)
    return noise, ridge


@app.cell
def _(noise, ridge):
    from unlazy.theory import ridge_equivalent

    rows = np.unique(np.geomspace(40, 4000, 120).round())
    figure, axes = style.panels(width=5.5, height=3.2)
    for index, level in enumerate([0.0, ridge.value]):
        curve = ridge_equivalent([1.0], 1 / 400, rows, level, noise.value, multiplicities=[400])
        style.theory(axes, rows, curve.risk, color=style.colour(index), label=f"ridge {level:g}")
    axes.set_ylim(0.003, 30)
    style.log_scale(axes)
    axes.set(xlabel="rows (400 columns)", ylabel="error beyond the noise")
    axes.legend()
    figure
    return


@app.cell(hide_code=True)
def _():
    mo.md("""
    ## A verdict

    `unlazy.run` does the experiment for a whole *study*: here `ridge-equivalent`, with several sizes, spectra and
    ridges. First with three random draws (seeds) per setting.
    """)
    return


@app.cell
def _():
    few = unlazy.run("ridge-equivalent", seeds=3)
    few
    return (few,)


@app.cell(hide_code=True)
def _(few):
    risk = few.verdicts[0]
    mo.md(f"""
    How to read a line: the claim `{risk.claim.id}` says "{risk.claim.statement}" Its number must be
    {risk.claim.criterion}. In its worst case ({risk.case}) three draws give a mean of {risk.measured:.3f}, but the 99%
    interval for what many draws would give is [{risk.low:.2f}, {risk.high:.2f}], far wider than the criterion. So the
    verdict is `{risk.verdict}`: not "wrong", not "right", but "three draws cannot tell". The criterion was written down
    before the run and does not move. What can change is the number of draws.
    """)
    return (risk,)


@app.cell
def _():
    study = unlazy.run("ridge-equivalent")
    study
    return (study,)


@app.cell
def _(study):
    study.figure()
    return


@app.cell(hide_code=True)
def _(few, study):
    now = study.verdicts[0]
    mo.md(f"""
    Now the interval, [{now.low:.3f}, {now.high:.3f}] in the worst case, lies inside the criterion: the claim
    `{now.verdict}`. Lines are theory, points are simulation with their intervals. The first run was not wasted:
    its {few.computed} results were in the store, and only {study.computed} were computed now.

    ## Lazy or not

    The package is named after this: a very wide network trained in small steps hardly moves its first layer. It is
    *lazy*, and does what a fixed kernel does. One single large gradient step on the first layer already changes that.
    The target here is a curve along one hidden direction; the horizontal axis is the size of that one step, and at 0
    the network is lazy.
    """)
    return


@app.cell
def _():
    small = {"d": 100, "width": 200, "n": 800}
    step = unlazy.run("best-step-size", set=small, over={"relative_step_size": [0, 1, 2, 4, 16]}, seeds=8)
    return small, step


@app.cell
def _(small, step):
    sizes = np.linspace(0, 16, 17)
    line = unlazy.predict("best-step-size", set=small, over={"relative_step_size": sizes.tolist()})
    picture, plot = style.panels(width=5.5, height=3.2)
    style.theory(plot, sizes, line.risk, color=style.colour(0), label="theory")
    style.simulation(
        plot, step.simulated.relative_step_size, step.simulated.risk, color=style.colour(1), label="networks"
    )
    plot.set(xlabel="size of the step", ylabel="error beyond the noise", ylim=(0, None))
    plot.legend()
    picture
    return (line,)


@app.cell(hide_code=True)
def _(line, step):
    lazy, best = line.risk.values[0], line.risk.min().item()
    where = line.relative_step_size.values[line.risk.values.argmin()]
    trained = step.simulated.risk.mean("seed").squeeze()
    tried = trained.relative_step_size.values
    seen = tried[trained.values.argmin()]
    mo.md(f"""
    Theory gives the lazy network an error of {lazy:.2f} and says that a step of size {where:g} is the best, with
    {best:.2f}, less by a factor of {lazy / best:.1f}; a step that is too large helps less again. No network was trained
    for these numbers. The networks were trained at the sizes {", ".join(f"{size:g}" for size in tried)} only. Of these
    {seen:g} was the best: {trained.values.min():.2f}, and {trained.values[0]:.2f} without a step. So the simulation
    checks the errors at these sizes; where between them the minimum is, it leaves to the theory.

    ## What does not work

    Theories assume things. Gaussian inputs are the usual one. How well does Gaussian theory predict linear models on
    real pixels, the 8 × 8 digits of scikit-learn? It sees nothing but means and covariances.
    """)
    return


@app.cell
def _():
    digits = unlazy.run("covariates-real", seeds=32)
    digits
    return (digits,)


@app.cell(hide_code=True)
def _(digits):
    verdicts = {verdict.claim.id: verdict for verdict in digits.verdicts}
    logistic, surrogate, regression = (verdicts[name] for name in ("logistic", "surrogate", "ridge-regression"))
    mo.md(f"""
    For ridge regression it does: `{regression.verdict}`. For logistic regression the criterion is the same,
    {logistic.claim.criterion}, and the claim `{logistic.verdict}`: the error is up to {logistic.measured:.0%} above
    theory. It is a *known negative*: it stays in the study with its criterion and the reason,
    "{logistic.claim.known_negative}". The claim `surrogate` is the cross-check: Gaussian data with the same means and
    covariances do what theory says (`{surrogate.verdict}`), so it is the pixels that are not Gaussian, not the formula
    that is wrong. Where the table says `inconclusive`, this page draws too few seeds: the study's own preset has three
    times as many.

    ## Read on

    - `unlazy list` shows all studies; `unlazy show benign-overfitting` one of them; `unlazy reproduce` runs them all
      and writes one HTML report. `unlazy explore` has sliders for every study.
    - More to try in the same way: `random-features-double-descent`, `lazy-vs-feature`, `benign-overfitting`,
      `sharpness-aware-minimisation`, `linear-attention`.
    - `your_own_study.py`, next to this notebook: a result of your own in 40 lines.
    - `your_own_data.py`: what the theory says about your own table.
    - `your_own_network.py`: what a network of yours has learned.
    """)
    return


if __name__ == "__main__":
    app.run()
