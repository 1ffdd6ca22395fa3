import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="Your own data")

with app.setup:
    import marimo as mo
    import numpy as np
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

    from unlazy.plotting import style


@app.cell(hide_code=True)
def _():
    mo.md("""
    # Your own data

    You have a table and a column to predict. Before you tune anything: how much can be learned from these rows, what
    would more rows bring, is there a bend that a linear model misses, and is another model worth it? The data sets here
    come with scikit-learn. To take a table of your own, change the next cell:

    ```python
    from unlazy.diagnostics.table import read_table

    frame = read_table("houses.csv")   # CSV, TSV or Parquet with one row of column names
    X, y = TableEncoder().fit_transform(frame.drop(columns="price")), frame["price"].to_numpy()
    ```

    `TableEncoder` makes numbers of a table: numeric columns are standardised, gaps are filled and marked, text becomes
    one column per value, and its `notes()` say what it did. The estimators and reports of unlazy do this by
    themselves where a DataFrame has text, dates or gaps; here the other models see the same columns.
    """)
    return


@app.cell
def _():
    from unlazy.data.table_encoder import TableEncoder

    frame = load_diabetes(as_frame=True).frame
    X, y = TableEncoder().fit_transform(frame.drop(columns="target")), frame["target"].to_numpy(float)
    X.shape
    return X, frame, y


@app.cell(hide_code=True)
def _():
    mo.md("""
    ## A look before modelling

    `ridge_report` says in milliseconds which ridge is best, how good it will be on new rows, and how much of the target
    is noise for a linear model, without a test set. The forecast is for other numbers of rows.
    """)
    return


@app.cell
def _(X, y):
    from unlazy.diagnostics import ridge_report

    report = ridge_report(X, y)
    mo.md(f"```text\n{report}\n```")
    return (report,)


@app.cell(hide_code=True)
def _(report):
    now, more = report.forecast.test_error[-3], report.forecast.test_error[-1]
    mo.md(f"""
    Of the variance {report.target_variance:.0f} of the target a linear model leaves {now:.0f}, and
    {report.noise_variance:.0f} would be left with endless rows. With four times the rows it would leave {more:.0f}:
    collecting rows for the same linear model brings {1 - more / now:.0%}. If you want better predictions here, you need
    other columns or a model that bends. Does the target bend along some direction?
    """)
    return


@app.cell
def _(X, y):
    from unlazy.diagnostics import index_report

    index = index_report(X, y)
    mo.md(f"```text\n{index}\n```")
    return


@app.cell(hide_code=True)
def _():
    mo.md("""
    There is a direction, and there are enough rows to find it. The linear part is large and sure. The even part, by
    which a curve could be seen, is there, but its interval reaches down to zero: do not expect much of a bend. We will
    see below whether that is right.

    ## What would twice the rows bring?

    `forecast` compares ridge, kernel ridge, random features and the metric machine at more rows than there are, without
    training on them. The metric of the machine is held fixed as half of the rows taught it.
    """)
    return


@app.cell
def _(frame):
    from unlazy.diagnostics import forecast

    more_rows = forecast(frame, "target")
    mo.md(f"```text\n{more_rows}\n```")
    return


@app.cell(hide_code=True)
def _():
    mo.md("""
    A forecast should be put to the test where the answer is known. Give `LearningCurve` a quarter of the rows, let it
    say what three times as many will do, and train on three times as many.
    """)
    return


@app.cell
def _(X, y):
    from sklearn.linear_model import Ridge

    from unlazy.diagnostics import LearningCurve

    checks = []
    for seed in range(12):
        order = np.random.default_rng(seed).permutation(len(y))
        part, train, test = order[:110], order[:330], order[330:]
        curve = LearningCurve("linear").fit(X[part], y[part])
        curve.set_params(penalty=curve.best_penalty().penalty)
        said = curve.predict(n=330)
        model = Ridge(alpha=curve.penalty).fit(X[train], y[train])
        came = np.mean((y[test] - model.predict(X[test])) ** 2)
        checks.append((said.test_error, *said.interval, came))
    said, low, high, came = np.array(checks).T
    return came, high, low, said


@app.cell
def _(came, high, low, said):
    figure, axes = style.panels(width=4.2, height=3.2)
    axes.errorbar(came, said, yerr=[said - low, high - said], fmt="o", color=style.colour(0))
    axes.axline((3000, 3000), slope=1, color="0.5", linewidth=0.8)
    axes.set(xlabel="error on held-out rows, trained on 330", ylabel="forecast from 110 rows")
    figure
    return


@app.cell(hide_code=True)
def _(came, high, low, said):
    covered = int(((low <= came) & (came <= high)).sum())
    mo.md(f"""
    The mean of the forecasts is {said.mean():.0f}, the mean of what came {came.mean():.0f}. Single forecasts scatter by
    {said.std(ddof=1) / said.mean():.0%}: 110 rows do not know better, and the intervals say so.
    {covered} of {len(said)} cover what came, which is itself measured on 112 rows only. `unlazy forecast --check` does
    this for every method.

    ## Does another model pay?

    Four targets, chosen from seven that we tried so that one is a tie, one a win and two are losses: they show what can
    happen, not how often. Every model is trained on half of the rows and scored on the other half, on the same two
    splits, and nothing is tuned on the held-out rows. `SingleIndexRegressor` looks for one direction and any curve
    along it; `OneStepRegressor` is a network whose first layer took one large gradient step.
    """)
    return


@app.cell
def _(X, y):
    cancer, digits = load_breast_cancer(), load_digits()
    targets = {
        "diabetes: progression": (X, y),
        "tumours: mean area": (np.delete(cancer.data[:, :10], 3, axis=1), cancer.data[:, 3]),
        "tumours: benign or not": (cancer.data, cancer.target.astype(float)),
        "digits: which one": (digits.data[:700], digits.target[:700].astype(float)),
    }
    return cancer, targets


@app.cell
def _():
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from unlazy.estimators import OneStepRegressor, SingleIndexRegressor

    grid = {"alpha": [0.001, 0.03, 1.0], "gamma": [0.003, 0.01, 0.03]}
    models = {
        "ridge": make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 30))),
        "kernel ridge": make_pipeline(StandardScaler(), GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=3)),
        "OneStepRegressor": make_pipeline(StandardScaler(), OneStepRegressor()),
        "SingleIndexRegressor": SingleIndexRegressor(),
    }
    return StandardScaler, make_pipeline, models


@app.cell
def _(models, targets):
    from sklearn.model_selection import ShuffleSplit, cross_val_score

    splits = ShuffleSplit(2, test_size=0.5, random_state=0)
    by_split, scores = {}, {}
    for name, (inputs, target) in targets.items():
        standard = (target - target.mean()) / target.std()
        by_split[name] = {m: cross_val_score(model, inputs, standard, cv=splits) for m, model in models.items()}
        scores[name] = {m: both.mean() for m, both in by_split[name].items()}
    return by_split, scores, splits


@app.cell(hide_code=True)
def _(by_split, models, scores):
    def line(name, found):
        best = max(found.values())
        marks = {model: "**" if value > best - 0.005 else "" for model, value in found.items()}
        cells = [f"{marks[m]}{value:.3f}{marks[m]} ({np.ptp(by_split[name][m]):.3f})" for m, value in found.items()]
        return f"| {name} | {' | '.join(cells)} |"

    lines = "\n".join(line(name, found) for name, found in scores.items())
    mo.md(
        "R² on held-out rows, mean of the two splits, within 0.005 of the best in bold; in brackets how far the two "
        "splits are apart:\n\n"
        f"| target | {' | '.join(models)} |\n|{' --- |' * (len(models) + 1)}\n{lines}"
    )
    return


@app.cell(hide_code=True)
def _(by_split, found, logistic_score, scores):
    area, label, digit = (scores[name] for name in list(scores)[1:])
    apart = max(np.ptp(both) for target in by_split.values() for both in target.values())

    def ahead(ours, theirs):
        first, second = np.subtract(ours, theirs)
        return f"by {first:.3f} on the first split and by {second:.3f} on the second"

    areas, labels, _ = list(by_split.values())[1:]
    mo.md(f"""
    Two splits are few, and the scores of one model are up to {apart:.2f} apart: a hundredth in this table says little.
    Models are better compared split by split, on the same rows, as below; for a choice that matters take ten splits.

    - **Diabetes**: no model wins by anything that matters. The report above said so: no bend to speak of.
    - **Area**: an area grows like the square of a length. That is a curve of one direction, and the model made for it
      wins against ridge: {area["SingleIndexRegressor"]:.3f} against {area["ridge"]:.3f},
      {ahead(areas["SingleIndexRegressor"], areas["ridge"])}. Kernel ridge, whose bandwidth and penalty were
      searched for, finds the curve in nine columns as well: {area["kernel ridge"]:.3f}.
    - **Benign or not**: a label is a step along a direction. Both our models are far ahead of ridge
      ({label["ridge"]:.3f}). And both are the wrong choice: logistic regression, which is made for labels, explains
      {logistic_score:.3f}, and is ahead of `SingleIndexRegressor` {ahead(found, labels["SingleIndexRegressor"])}.
      Use it.
    - **Digits**: the number on an image is no curve of one direction. `OneStepRegressor` learns some of it
      ({digit["OneStepRegressor"]:.3f}, ridge {digit["ridge"]:.3f}); plain kernel ridge learns more
      ({digit["kernel ridge"]:.3f}), since there are many directions and enough rows for a kernel.

    The rule behind it: learning a direction pays when there are few directions, a real bend along them, and too few
    rows for a kernel. When in doubt compare as above; it takes seconds.
    """)
    return


@app.cell
def _(StandardScaler, cancer, make_pipeline, splits):
    from sklearn.linear_model import LogisticRegression

    logistic = make_pipeline(StandardScaler(), LogisticRegression())
    found = []
    for train_rows, test_rows in splits.split(cancer.data):
        logistic.fit(cancer.data[train_rows], cancer.target[train_rows])
        chance = logistic.predict_proba(cancer.data[test_rows])[:, 1]
        found.append(1 - np.mean((cancer.target[test_rows] - chance) ** 2) / np.var(cancer.target[test_rows]))
    logistic_score = np.mean(found)
    logistic_score
    return found, logistic, logistic_score


@app.cell(hide_code=True)
def _():
    mo.md("""
    ## Leave-one-out without refits

    For that logistic regression, how good is it on all the rows? `loo_scores` answers from the one fit: what would the
    model have said of each row, had it not seen it? Below,
    every tenth row is really left out and the model refitted.
    """)
    return


@app.cell
def _(cancer, logistic):
    from sklearn.base import clone

    from unlazy.diagnostics import loo_scores

    loo = loo_scores(logistic.fit(cancer.data, cancer.target), cancer.data, cancer.target)
    scaled = logistic[0].transform(cancer.data)
    refitted, scaled_too = [], []
    for row in range(0, len(scaled), 10):
        kept, truth = np.arange(len(scaled)) != row, cancer.target[row]
        last = clone(logistic[-1]).fit(scaled[kept], cancer.target[kept])
        refitted.append(-last.predict_log_proba(scaled[[row]])[0, truth])
        whole = clone(logistic).fit(cancer.data[kept], cancer.target[kept])
        scaled_too.append(-whole.predict_log_proba(cancer.data[[row]])[0, truth])
    mo.md(f"```text\n{loo}\n```")
    return loo, refitted, scaled_too


@app.cell(hide_code=True)
def _(loo, refitted, scaled_too):
    mo.md(f"""
    The mean log loss of those {len(refitted)} rows is {loo.losses[::10].mean():.4f} from the one fit and
    {np.mean(refitted):.4f} by refits of the regression. If the scaler is refitted too, it is {np.mean(scaled_too):.4f}:
    `loo_scores` keeps the steps before the model as they are, so they have seen the row, and for outlying rows that is
    the larger part of what is missing. The training loss of all rows, {loo.training_log_loss:.4f}, is below their
    leave-one-out loss by {1 - loo.training_log_loss / loo.loo_log_loss:.0%}.

    ## Read on

    - From the shell: `unlazy forecast houses.csv --target price --check --figure forecast.png`.
    - The README has a table of all estimators and when each pays; their docstrings tell what they assume.
    - `make bench` compares them with scikit-learn's on drawn and real data, also where they lose.
    - `first_steps.py` shows the theory behind it, `your_own_study.py` how to test a theory of your own.
    """)
    return


if __name__ == "__main__":
    app.run()
