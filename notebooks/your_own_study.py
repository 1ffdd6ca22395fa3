import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="Your own study in 40 lines")

with app.setup:
    from dataclasses import dataclass

    import marimo as mo
    import numpy as np

    from unlazy.lab import OWN, Output, Source, Study, claim, difference, kept, path, static, within


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # Your own study in 40 lines

    You have a formula. You want to know whether finite systems obey it and how large they must be, and you want an
    answer that is more than a plot that looks right. In unlazy that is a *study*: a class with parameters, a
    simulation, the theory, and claims that can fail. The lab does the rest: grids, seeds, storage, intervals,
    verdicts, figures, clusters.

    The result here is not in the package. Take $n$ rows of $d$ independent numbers of variance 1, except along one
    hidden direction, where the variance is $1 + \theta$. Does PCA find the direction? If $n$ and $d$ are large and
    $\gamma = d/n$, the squared cosine between the first principal component and the direction is

    $$\frac{1 - \gamma/\theta^2}{1 + \gamma/\theta}\quad\text{if}\ \theta > \sqrt\gamma,\qquad 0\ \text{otherwise,}$$

    and the variance that PCA reports is $(1 + \theta)(1 + \gamma/\theta)$, or $(1 + \sqrt\gamma)^2$ below the
    transition (Baik, Ben Arous & Péché 2005; Paul 2007).

    ## The study

    `static` parameters change the shapes, a `path` is a list of values that one draw serves. A claim is a function of
    the run: its docstring is the sentence, what it returns the number that decides it (the second where the extra
    variance is 2 or more and PCA finds the direction). `simulate` is one instance and gets a NumPy generator; call its
    argument `key` instead of `rng` and it is traced by JAX and compiled. `predict` returns the theory under the same
    names.
    """)
    return


@app.class_definition
@dataclass(frozen=True)
class HiddenDirection(Study):
    question = "When does PCA find a direction of larger variance, and what variance does it report there?"
    sources = (Source("paul2007", "Paul, D.", 2007, "Asymptotics of sample eigenstructure", "Statistica Sinica 17(4)"),)

    d: int = static(100, "columns", symbol="d", low=2, high=5000, scale="log")
    samples_per_dimension: float = static(2.0, "rows over columns", symbol="n/d", low=0.1, high=100, scale="log")
    extra_variance: tuple = path(
        (0.15, 0.3, 1.5, 2.5, 4.0, 8.0), "extra variance", symbol=r"\theta", above=0, scale="log"
    )

    outputs = {
        "squared_overlap": Output("squared cosine with the direction", dims=("extra_variance",)),
        "reported_variance": Output("variance that PCA reports", dims=("extra_variance",), scale="log"),
    }
    presets = {"quick": {"d": [100, 200], "seeds": 128}, "full": {"d": [200, 800, 3200], "seeds": 200}}
    lines = {"main": "extra_variance"}

    @claim("paul2007", "", within(0.05, absolute=True))
    def squared_overlap(main):
        """The squared cosine is the theory's, {criterion}."""
        return difference(main, "squared_overlap")

    @claim(OWN, "a common belief", within(0.05))
    def reported_variance(main):
        """From an extra variance of 2 on PCA reports the variance that is there, {criterion}."""
        extra = main.simulated.extra_variance
        return kept(main.simulated.reported_variance / (1 + extra) - 1, extra >= 2)

    def simulate(self, rng):
        deviations = np.sqrt(1 + np.outer(self.extra_variance, np.arange(self.d) == 0))
        rows = rng.standard_normal((round(self.samples_per_dimension * self.d), self.d)) * deviations[:, None]
        values, vectors = np.linalg.eigh(rows.swapaxes(1, 2) @ rows / rows.shape[1])
        return {"squared_overlap": vectors[:, 0, -1] ** 2, "reported_variance": values[:, -1]}

    def predict(self):
        ratio = 1 / self.samples_per_dimension
        seen = np.maximum(self.extra_variance, np.sqrt(ratio))
        overlap = (1 - ratio / seen**2) / (1 + ratio / seen)
        return {"squared_overlap": overlap, "reported_variance": (1 + seen) * (1 + ratio / seen)}


@app.cell(hide_code=True)
def _():
    columns_over_rows = 1 / HiddenDirection().samples_per_dimension
    mo.md(rf"""
    ## Predict, simulate, judge

    `predict` needs no data and `over` any axis. Below the transition, at
    $\theta = \sqrt{{{columns_over_rows:g}}} \approx {np.sqrt(columns_over_rows):.2f}$, PCA is blind; four times above
    it has most of the direction.
    """)
    return (columns_over_rows,)


@app.cell
def _():
    import unlazy

    unlazy.predict(HiddenDirection, over={"extra_variance": [0.35, 0.7, 1.4, 2.8, 5.6]}).to_dataframe().round(3)
    return (unlazy,)


@app.cell(hide_code=True)
def _():
    mo.md("""
    `run` draws every point of the preset with every seed, evaluates the theory at the same points and judges the
    claims. A claim *holds* if in every case (here each `d` and each extra variance) the 99% interval of the mean over
    seeds lies inside the criterion. It *fails* if the interval of some case lies outside. Else it is *inconclusive*:
    more seeds are needed, not another criterion. The table shows the worst case.
    """)
    return


@app.cell
def _(unlazy):
    run = unlazy.run(HiddenDirection)
    run
    return (run,)


@app.cell
def _(run):
    run.figure()
    return


@app.cell(hide_code=True)
def _(columns_over_rows, run):
    belief = {verdict.claim.id: verdict for verdict in run.verdicts}["reported-variance"]
    theory = columns_over_rows / float(belief.case.split("extra_variance = ")[1])
    mo.md(rf"""
    The cosine is the theory's. The second claim was put in to fail: many readers of a PCA take the variance it reports
    for the variance along the direction. It is too large by {belief.measured:.0%} in the worst case; the noise that the
    largest eigenvalue also collects, $\gamma/\theta$, explains {theory:.0%}. The claim `{belief.verdict}`, and the
    command line says so with exit code 1. Once you know why a claim of a paper does not hold, keep it, with its
    criterion, and give it `known_negative="the reason"`: it is then shown as *fails (known)* with the reason.

    ## Where the theory is not yet true

    The preset keeps away from the transition. That is a choice, so look at what it leaves out. `over` replaces the
    axes of the preset; what the store has of them is not computed again.
    """)
    return (belief,)


@app.cell
def _(unlazy):
    near = unlazy.run(HiddenDirection, over={"extra_variance": [0.5, 0.7, 0.9], "d": [30, 60, 120, 240]}, seeds=24)
    near
    return (near,)


@app.cell(hide_code=True)
def _(near):
    at_transition = near.simulated.squared_overlap.sel(extra_variance=0.7).mean("seed")
    numbers = "\n".join(f"    | {d} | {value:.2f} |" for d, value in at_transition.to_series().items())
    mo.md(rf"""
    The same claim fails here. At $\theta = 0.7$, just below the transition, theory says
    {float(near.predicted.squared_overlap.sel(extra_variance=0.7)[0]):.2f}. Finite rows say

    | columns | squared cosine |
    | --- | --- |
{numbers}

    It falls slowly: the transition is smeared over a window that shrinks only like $d^{{-1/3}}$. The limit
    is right and the sizes are too small; both belong in the text next to the formula.
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## From the shell

    This notebook is a Python file with the class at its top level, so the command line can run it as it is:

    ```console
    unlazy run notebooks/your_own_study.py:HiddenDirection --figure pca.pdf
    unlazy run notebooks/your_own_study.py:HiddenDirection --over extra_variance=0.3:3:12 --seeds 200
    unlazy run notebooks/your_own_study.py:HiddenDirection --preset full --dry-run
    unlazy run notebooks/your_own_study.py:HiddenDirection --preset full --cluster tcp://scheduler:8786
    unlazy export notebooks/your_own_study.py:HiddenDirection pca.nc
    ```

    `--dry-run` says how many instances there are, how much memory one takes and about how long all will take.
    `--cluster` sends chunks to a Dask scheduler (extra `cluster`; `local:4` starts four processes here). `export`
    writes netCDF, one group per part, which xarray, Julia and MATLAB read. In Python, `run.simulated` is an
    `xarray.Dataset` already:
    """)
    return


@app.cell
def _(run):
    run.simulated.squared_overlap.quantile([0.1, 0.5, 0.9], "seed").sel(d=200).to_pandas().round(3)
    return


@app.cell(hide_code=True)
def _(again, run):
    mo.md(f"""
    ## What the store does

    Every finished instance is one row of an SQLite file, under a key of its parameters, its seed and a fingerprint of
    the code that `simulate` reaches. Run the cell above again, or kill it in the middle and start anew: only what is
    missing is computed. The same call once more computed {again.computed} of {run.simulated.sizes["seed"]} seeds per
    point. Change a claim, the theory or the figure, and nothing is computed again; change `simulate`, and all is.
    `unlazy store` shows what is there; the variable `UNLAZY_STORE` names another file.
    """)
    return


@app.cell
def _(unlazy):
    again = unlazy.run(HiddenDirection)
    again.computed
    return (again,)


@app.cell(hide_code=True)
def _():
    mo.md("""
    ## How it becomes part of the package

    Move the class to `src/unlazy/studies/<topic>/hidden_direction.py`. That is all: `unlazy list` shows it,
    `unlazy reproduce` runs it, the report and the gallery have a page of it. The generic tests then ask for a question
    that ends in a question mark, presets that finish in seconds, and claims that were written before the run.
    `CONTRIBUTING.md` has the rules; `src/unlazy/studies/one_step/spike.py` is the same transition in a trained network.
    """)
    return


if __name__ == "__main__":
    app.run()
