"""What the report says of networks whose answer is known, and what it refuses."""

import copy
import doctest
import importlib
import json
import pathlib
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra torch")

from torch import nn  # noqa: E402

from unlazy.checks import InputError  # noqa: E402
from unlazy.diagnostics import ProbeCallback, probe, probe_files  # noqa: E402

D, CLASSES = 60, 4


def rows_of(rng, n, distance=4.0):
    codes = rng.integers(0, CLASSES, n)
    return (distance * np.eye(D)[codes] + rng.normal(size=(n, D))).astype(np.float32), codes


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return (*rows_of(rng, 300), *rows_of(rng, 200))


class Scaled(nn.Module):
    """scale (f - f_0): lazy for a large scale, rich for a small one."""

    def __init__(self, scale, width=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(D, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                                 nn.Linear(width, CLASSES))  # fmt: skip
        self.start = copy.deepcopy(self.net).requires_grad_(False)
        self.scale = scale

    def forward(self, x):
        return self.scale * (self.net(x) - self.start(x))


def trained(scale, X, y, steps=300):
    torch.manual_seed(0)
    model = Scaled(scale)
    callback = ProbeCallback(steps=[10, 50])
    callback.keep(model, 0)
    optimiser = torch.optim.Adam(model.net.parameters(), 1e-3 / max(scale, 1))
    inputs, labels = torch.tensor(X), torch.tensor(y)
    for step in range(1, steps + 1):
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        callback.keep(model, step)
    callback.end(model, steps)
    return model, callback


@pytest.fixture(scope="module")
def flipped(data):
    """A network that has learned 30% wrong labels by heart, and its report."""
    X, y, V, y_val = data
    rng = np.random.default_rng(1)
    given = np.where(rng.random(len(y)) < 0.3, (y + rng.integers(1, CLASSES, len(y))) % CLASSES, y)
    model, callback = trained(1.0, X, given)
    return given, callback.report(model, X, given, V, y_val, true_labels=y)


def test_a_large_output_scale_is_lazy_and_a_small_one_rich():
    rng = np.random.default_rng(4)
    (X, y), held_out = rows_of(rng, 300, 6.0), rows_of(rng, 200, 6.0)
    for scale, regime in ((100.0, "lazy"), (0.3, "rich")):
        model, callback = trained(scale, X, y)
        report = callback.report(model, X, y, *held_out, rows=100)
        assert report.lazy_or_rich == regime
        assert report.signal_or_memory == "signal"
        found = report.dataset
        assert found.attrs == {"n": 300, "held_out": 200, "classes": CLASSES, "rows": 100}
        assert float(found.training_fit[-1]) == 1.0
        aligned = float(found.kernel_alignment[-1])
        assert aligned > 0.95 if regime == "lazy" else aligned < 0.9
        # of the readout, ten outputs wide, no edge is known
        assert np.isnan(found.outlier_share[-1])


def test_memory_is_called_so_and_the_wrong_labels_are_found(data, flipped):
    y, (given, report) = data[1], flipped
    found = report.dataset
    assert report.signal_or_memory == "memory"
    assert float(found.flipped_fit[-1]) > 0.9
    assert abs(float(found.wrong_share) - np.mean(given != y)) < 4 * float(found.wrong_share_deviation)
    assert float(found.wrong_label_auc) > 0.9
    suspects = report.suspects
    assert np.mean((given != y)[suspects]) > 0.8
    # memory turns what was learned away from the class means
    assert float(found.signal_share[-1]) < 0.8 * float(found.signal_share.max())
    method = dict(zip(found.method.values.tolist(), found.method_error.values.tolist(), strict=True))
    assert method["the network"] == pytest.approx(1 - float(found.held_out_accuracy[-1]))
    assert method["its initial tangent kernel"] < method["the network"] - 0.05


def test_the_forecast_holds_what_a_readout_of_more_held_out_rows_does(data):
    from unlazy.observables.feature_kernels import feature_kernel
    from unlazy.observables.left_out_labels import left_out_labels

    X, y, *_ = data
    model, callback = trained(1.0, X, y, 60)
    rng = np.random.default_rng(5)
    report = callback.report(model, X, y, *rows_of(rng, 150))
    more, codes = rows_of(rng, 750)
    with torch.no_grad():
        features = model.net[:-1](torch.tensor(more)).numpy()
    truth = left_out_labels(feature_kernel(features), codes).squared_error / (1 - 1 / CLASSES)
    at = report.dataset.sel(size=750)
    assert float(at.forecast_low) < truth < float(at.forecast_high)
    assert truth == pytest.approx(float(at.forecast_error), rel=0.25)


def test_a_kernel_that_is_symmetric_up_to_single_precision_is_used(data, monkeypatch):
    from unlazy.diagnostics.probing.torch_network import TorchNetwork

    exact = TorchNetwork.kernel

    def rounded(self, state, rows, left, *others):
        values, strange = exact(self, state, rows, left, *others)
        return values * (1 + 1e-7 * np.random.default_rng(0).normal(size=values.shape)), strange

    expected = asked(data, rows=50).dataset
    monkeypatch.setattr(TorchNetwork, "kernel", rounded)
    found = asked(data, rows=50).dataset
    assert "its initial tangent kernel" in found.method.values
    np.testing.assert_allclose(found.label_margin, expected.label_margin, atol=1e-3)


def test_a_network_that_does_not_fit_is_not_said_to_have_memorised(data):
    X, y, *held_out = data
    wrong = np.random.default_rng(3).permutation(y)
    model, callback = trained(1.0, X, wrong, 20)
    report = callback.report(model, X, wrong, *held_out, rows=100)
    assert report.signal_or_memory == "unfitted"
    assert "do not speak of memory" in report.sentences[1]


def moved_by(state, change):
    torch.manual_seed(1)
    return {name: value + change * value.std() * torch.randn_like(value) for name, value in state.items()}


@pytest.mark.parametrize(
    ("change", "words"), [(1e-7, "has hardly been trained"), (2.0, "has not learned its training")]
)
def test_a_network_that_predicts_labels_no_better_than_by_chance_is_not_said_to_have_learned(change, words):
    rng = np.random.default_rng(0)
    X, V = rng.normal(size=(200, D)).astype(np.float32), rng.normal(size=(100, D)).astype(np.float32)
    y, y_val = (np.arange(n) % CLASSES for n in (200, 100))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(D, 48), nn.ReLU(), nn.Linear(48, CLASSES)).eval()
    states = [copy.deepcopy(model.state_dict()), moved_by(model.state_dict(), change)]
    report = probe(model, states, X, y, V, y_val, rows=50)
    assert report.lazy_or_rich == "untrained"
    assert words in report.sentences[0]
    assert "of the training labels, no better than by chance (25%)" in report.sentences[0]
    assert f"weights moved by {np.median(report.dataset.relative_change[-1]):.2g}" in report.sentences[0]


def test_a_network_that_fits_no_more_labels_than_at_its_start_is_not_said_to_have_learned(data):
    X, y, *held_out = data
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(D, 48), nn.ReLU(), nn.Linear(48, CLASSES)).eval()
    with torch.no_grad():
        answers = model(torch.tensor(X)).argmax(1).numpy()
    given = np.where(np.arange(len(y)) % 3 == 0, answers, y)
    states = [copy.deepcopy(model.state_dict()), moved_by(model.state_dict(), 1e-7)]
    report = probe(model, states, X, given, *held_out, rows=50)
    assert report.lazy_or_rich == "untrained"
    share = np.mean(given == answers)
    assert (
        f"hardly been trained: it predicts {100 * share:.0f}% of the training labels, no better than at its start"
        in (report.sentences[0])
    )


def test_outputs_that_are_all_the_same_are_no_better_than_chance(data):
    """Ties are half right, whatever the number of classes."""
    _, y, _, y_val = data
    saved = [{"outputs": np.zeros((len(y), CLASSES)), "outputs_val": np.full((len(y_val), CLASSES), c)} for c in (0, 1)]
    assert probe(None, saved, None, y, None, y_val).lazy_or_rich == "untrained"


def test_a_network_that_starts_from_no_answer_learns_what_it_fits_beyond_chance(data):
    """f - f_0 is 0 at the start, of which half counts as right; 40% of four classes are more than nothing."""
    _, y, _, y_val = data
    rng = np.random.default_rng(0)
    saved = []
    for known in (0.0, 0.2):
        one = {}
        for end, codes in (("", y), ("_val", y_val)):
            answers = np.where(rng.random(len(codes)) < known, codes, rng.integers(0, CLASSES, len(codes)))
            one[f"outputs{end}"] = np.eye(CLASSES)[answers] * (known > 0)
        saved.append(one)
    report = probe(None, saved, None, y, None, y_val)
    assert float(report.dataset.training_fit[-1]) < float(report.dataset.training_fit[0]) == 0.5
    assert report.lazy_or_rich == "unknown"


def test_checkpoints_that_are_the_same_are_told(data):
    report = asked(data)
    assert report.lazy_or_rich == "untrained"
    assert report.sentences[0].startswith("Nothing changed between the first and the last checkpoint")
    assert len(report.figure().axes) == 4


def test_the_report_prints_four_sentences_draws_and_is_written(flipped, tmp_path):
    import xarray as xr

    _, report = flipped
    text = str(report)
    for title in ("Lazy or rich.", "Signal or memory.", "What else would do.", "More data."):
        assert title in text
    assert all(sentence.endswith(".") for sentence in report.sentences)
    assert len(report.figure().axes) == 4
    report.save(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "<svg" in page
    assert "http" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    ).replace("https://matplotlib.org", "")
    report.save(tmp_path / "report.nc")
    with xr.open_dataset(tmp_path / "report.nc", engine="h5netcdf") as stored:
        assert set(stored.variables) == set(report.dataset.variables)
    with pytest.raises(InputError, match=r"output must end in .html or .nc"):
        report.save(tmp_path / "report.txt")


def test_saved_activations_and_a_jax_function_say_what_the_module_does(data, flipped):
    import jax.numpy as jnp

    X, y, V, y_val = data
    model, callback = trained(1.0, X, y, 60)
    expected = callback.report(model, X, y, V, y_val, rows=60).dataset

    def network(params, rows):
        hidden = rows
        for layer in ("0", "2"):
            hidden = jnp.maximum(hidden @ params[f"{layer}.weight"].T + params[f"{layer}.bias"], 0)
        return hidden @ params["4.weight"].T + params["4.bias"] - params["shift"] * 0, hidden

    def centred(params, rows):
        start = {name.removeprefix("start."): value for name, value in params["frozen"].items()}
        outputs, hidden = network(params["net"], rows)
        return outputs - network(start, rows)[0], hidden

    states = []
    for state in callback.checkpoints:
        parts = {name: value.numpy() for name, value in state.items()}
        frozen = {name.removeprefix("start."): v for name, v in parts.items() if name.startswith("start.")}
        net = {name.removeprefix("net."): v for name, v in parts.items() if name.startswith("net.")}
        states.append({"net": {**net, "shift": 0.0}, "frozen": {**frozen, "shift": 0.0}})
    found = probe(centred, states, X, y, V, y_val, steps=callback.steps, rows=60).dataset
    for name in ("training_fit", "margin_gap", "kernel_alignment", "readout_error", "signal_share"):
        np.testing.assert_allclose(found[name], expected[name], rtol=2e-3, atol=1e-5, err_msg=name)
    saved = []
    for state in callback.checkpoints:
        model.load_state_dict(state)
        one = {}
        for end, rows in (("", X), ("_val", V)):
            with torch.no_grad():
                one[f"outputs{end}"] = model(torch.tensor(rows)).numpy()
                one[f"features{end}"] = model.net[:-1](torch.tensor(rows)).numpy()
        saved.append({**one, "first": model.net[0].weight.detach().clone().numpy()})
    found = probe(None, saved, None, y, None, y_val, steps=callback.steps, rows=60)
    for name in ("training_fit", "margin_gap", "kernel_alignment", "readout_error", "forecast_error"):
        np.testing.assert_allclose(found.dataset[name], expected[name], rtol=1e-4, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(found.dataset.outlier_share[0], expected.outlier_share[0], rtol=1e-4)
    assert found.dataset.label_kernel.item() == "kernel of the initial features"


def test_the_tangent_kernel_of_a_jax_function_is_that_of_the_module():
    import jax

    from unlazy.diagnostics.probing.jax_network import JaxNetwork
    from unlazy.diagnostics.probing.torch_kernel import tangent_kernel

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).double().eval()
    x = torch.randn(11, 5, dtype=torch.float64)
    with jax.enable_x64(True):
        params = {name: value.detach().numpy() for name, value in model.named_parameters()}

        def network(params, rows):
            hidden = jax.numpy.tanh(rows @ params["0.weight"].T + params["0.bias"])
            return hidden @ params["2.weight"].T + params["2.bias"]

        probed = JaxNetwork(network, params)
        for budget in (1e9, 2000.0):
            values, _ = probed.kernel(params, x.numpy(), 6, budget, lambda text: None)
            np.testing.assert_allclose(values, tangent_kernel(model, x, left=6).values, rtol=1e-10)


def test_in_the_lazy_limit_the_kernel_predicts_the_trained_network():
    """Gradient descent of the linearised network on the square loss against training itself, at width 4096."""
    from unlazy.diagnostics.probing.torch_kernel import tangent_kernel

    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    try:
        width, n = 4096, 30
        model = nn.Sequential(nn.Linear(10, width), nn.Tanh(), nn.Linear(width, 1)).eval()
        with torch.no_grad():
            for layer in (model[0], model[2]):
                layer.weight.normal_(0, layer.in_features**-0.5)
                layer.bias.zero_()
        x = torch.randn(2 * n, 10)
        y = torch.sin(2 * x[:n, 0]) + x[:n, 1]
        kernel = tangent_kernel(model, x, left=n).values
        with torch.no_grad():
            start = model(x)[:, 0].numpy()
        step_size, steps = 1e-4, 600
        for _ in range(steps):
            loss = 0.5 * ((model(x[:n])[:, 0] - y) ** 2).sum()
            grads = torch.autograd.grad(loss, list(model.parameters()))
            with torch.no_grad():
                for parameter, grad in zip(model.parameters(), grads, strict=True):
                    parameter -= step_size * grad
        with torch.no_grad():
            end = model(x)[:, 0].numpy()
        inner = kernel[:, :n]
        decay = np.eye(n) - np.linalg.matrix_power(np.eye(n) - step_size * inner, steps)
        predicted = start + kernel.T @ np.linalg.solve(inner, decay @ (y.numpy() - start[:n]))
        assert np.linalg.norm(end - start) > 0.5 * np.linalg.norm(y.numpy())
        assert np.linalg.norm(end - predicted) < 0.02 * np.linalg.norm(end - start)
    finally:
        torch.set_default_dtype(torch.float32)


def asked(data, **changes):
    X, y, V, y_val = data
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(D, 8), nn.ReLU(), nn.Linear(8, CLASSES)).eval()
    state = model.state_dict()
    arguments = {
        "model": model, "checkpoints": [state, state], "X": X, "y": y, "X_val": V, "y_val": y_val, **changes,
    }  # fmt: skip
    return probe(**arguments)


def nan_state():
    model = nn.Sequential(nn.Linear(D, 8), nn.ReLU(), nn.Linear(8, CLASSES))
    return {name: value * torch.nan for name, value in model.state_dict().items()}


BAD = {
    "X must have at least 2 dimensions": {"X": np.zeros(300)},
    "X must be finite": {"X": np.full((300, D), np.nan)},
    "X must hold real numbers": {"X": np.full((300, D), "a")},
    "X_val must have rows like X": {"X_val": np.zeros((200, D + 1))},
    r"y must have shape \(300,\)": {"y": np.zeros(299)},
    "y must hold classes of y_val": {"y": np.full(300, 9)},
    "y_val must hold classes, got 200 values": {"y_val": np.arange(200.0)},
    "y_val must hold at least 2 classes": {"y_val": np.zeros(200)},
    "y must hold at least 2 classes, got only 1": {"y": np.ones(300, int)},
    "X must have at least 20 rows, got 19": {"X": np.ones((19, D)), "y": np.arange(19) % CLASSES},
    "true_labels must agree": {"true_labels": "shifted"},
    "X_val must hold rows that were not trained on": {"X_val": "repeated", "y_val": "repeated"},
    "checkpoints must be at least two, the one before training first, got 1": {"checkpoints": [{}]},
    "checkpoints must be a list": {"checkpoints": {}},
    "checkpoints must fit the model: size mismatch": {"checkpoints": "other"},
    "checkpoints must be state dicts": {"checkpoints": [1, 2]},
    "checkpoints must be finite": {"checkpoints": [nan_state(), nan_state()]},
    "model must be in evaluation mode": {"model": nn.Linear(D, CLASSES)},
    "model must give an output for each of the 4 classes": {"model": "three"},
    "model must be a PyTorch module": {"model": 3},
    "model must take rows like those of X": {"X": np.zeros((300, 7)), "X_val": np.ones((200, 7))},
    "steps must be 2 increasing numbers": {"steps": [3, 1]},
    "rows must be an integer >= 50": {"rows": 3},
    "budget must be >= 1": {"budget": 0},
}


@pytest.mark.parametrize("message", BAD)
def test_wrong_input_is_refused_in_one_line(data, message):
    changes = dict(BAD[message])
    X, y, *_ = data
    if changes.get("true_labels") == "shifted":
        changes["true_labels"] = (y + 1) % CLASSES
    if isinstance(changes.get("X_val"), str):
        changes |= {"X_val": X[:200], "y_val": y[:200]}
    if changes.get("checkpoints") == "other":
        changes["checkpoints"] = 2 * [nn.Sequential(nn.Linear(D, 9), nn.ReLU(), nn.Linear(9, CLASSES)).state_dict()]
    if changes.get("model") == "three":
        model = nn.Sequential(nn.Linear(D, 3)).eval()
        changes |= {"model": model, "checkpoints": 2 * [model.state_dict()]}
    with pytest.raises(InputError, match=message) as raised:
        asked(data, **changes)
    assert "\n" not in str(raised.value)


PREFIXES = ("module.", "model.", "net.", "_orig_mod.", "module._orig_mod.", "model.net.")


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_prefix_of_what_wraps_the_model_is_left_out_and_told(files, prefix):
    expected = probe_files("run.py:make_model", "ckpt/*.pt", "data.npz", rows=50)
    for file in pathlib.Path("ckpt").glob("*.pt"):
        torch.save({prefix + name: value for name, value in torch.load(file).items()}, file)
    report = probe_files("run.py:make_model", "ckpt/*.pt", "data.npz", rows=50)
    assert [note for note in report.notes if repr(prefix) in note] == [
        f"the names in the checkpoints fit the model without their prefix {prefix!r}, which was left out"
    ]
    np.testing.assert_array_equal(report.dataset.training_margin, expected.dataset.training_margin)


def test_the_name_of_a_part_that_was_compiled_is_read(data):
    X, y, *held_out = data
    model = nn.Sequential(nn.Sequential(nn.Linear(D, 8), nn.ReLU()), nn.Linear(8, CLASSES)).eval()
    state = {name.replace("0.0.", "0._orig_mod.0."): value for name, value in model.state_dict().items()}
    report = probe(model, [state, moved_by(state, 0.1)], X, y, *held_out, rows=50)
    assert any("'_orig_mod.'" in note for note in report.notes)


def other_names(state):
    return {f"{'first' if name.startswith('0') else 'last'}.{name}": value for name, value in state.items()}


def with_nan(state):
    return {name: value * torch.nan if name == "2.weight" else value for name, value in state.items()}


def other_shape(state):
    return {name: value[:7] if name == "0.weight" else value for name, value in state.items()}


BAD_STATES = {
    r"got NaN or infinity in 2.weight of ckpt/step_4.pt: leave it out": with_nan,
    r"must fit the model, got ckpt/step_4.pt without 0.bias, 0.weight, ... and with first.0.bias, first.0.weight, ...: "
    r"save the state_dict\(\) of the model itself, not of what wraps it": other_names,
    r"must fit the model: size mismatch for 0.weight.*\(ckpt/step_4.pt\)$": other_shape,
    r"checkpoints must be state dicts of the model, got for ckpt/step_4.pt a list": lambda state: list(state.values()),
}


@pytest.mark.parametrize("message", BAD_STATES)
def test_a_checkpoint_that_cannot_be_used_is_named(files, message):
    torch.save(BAD_STATES[message](torch.load("ckpt/step_4.pt")), "ckpt/step_4.pt")
    with pytest.raises(InputError, match=message) as raised:
        probe_files("run.py:make_model", "ckpt/*.pt", "data.npz")
    assert "\n" not in str(raised.value)


def test_saved_activations_that_cannot_be_used_are_named(tmp_path, data, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, y, _, y_val = data
    np.savez("data.npz", y=y, y_val=y_val)
    whole = {"outputs": np.ones((len(y), CLASSES)), "outputs_val": np.ones((len(y_val), CLASSES))}
    pathlib.Path("saved").mkdir()
    np.savez("saved/at_0.npz", **whole)
    for changed, message in (
        ({"outputs_val": np.full((len(y_val), CLASSES), np.nan)}, "outputs_val of saved/at_1.npz must be finite"),
        ({"outputs": np.ones((7, CLASSES))}, "outputs of saved/at_1.npz must have 300 rows like y, got 7"),
        ({"features": np.ones((7, 3))}, "features of saved/at_1.npz must have 300 rows like y, got 7"),
    ):
        np.savez("saved/at_1.npz", **{**whole, **changed})
        with pytest.raises(InputError, match=message):
            probe_files("saved", table="data.npz")
    np.savez("saved/at_1.npz", outputs=whole["outputs"])
    with pytest.raises(InputError, match=r"must have outputs_val, got for saved/at_1.npz outputs"):
        probe_files("saved", table="data.npz")


def test_a_first_checkpoint_that_is_not_the_initial_one_is_told(data):
    X, y, *held_out = data
    model, callback = trained(1.0, X, y, 100)
    late = callback.checkpoints[-2:]
    report = probe(copy.deepcopy(model).eval(), late, X, y, *held_out, rows=60)
    assert report.notes == (
        "the checkpoint 0 is taken for the start of training, though it predicts 100% of the training labels: lazy or "
        "rich and memory are measured from there",
    )
    fresh = ProbeCallback()
    fresh.end(model, 5)
    with pytest.raises(InputError, match="the initial parameters were not kept"):
        fresh.report(model, X, y, *held_out)


def test_lightning_finds_the_hooks_that_it_asks_for():
    class Trainer:
        global_step = 0

    model, callback, trainer = nn.Linear(3, 2), ProbeCallback(), Trainer()
    callback.setup(trainer, model, "fit")
    callback.on_fit_start(trainer, model)
    for step in range(1, 7):
        trainer.global_step = step
        callback.on_train_batch_end(trainer, model, None, None, step - 1)
        callback.on_before_zero_grad(trainer, model, None)
    callback.on_fit_end(trainer, model)
    assert callback.steps == [0, 1, 2, 4, 6]
    assert callback.state_dict() == {}
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        callback.nothing  # noqa: B018


SCRIPT = f"""
import torch
from torch import nn

def make_model():
    return nn.Sequential(nn.Linear({D}, 48), nn.ReLU(), nn.Linear(48, {CLASSES}))

def broken():
    raise KeyError("lost")

def number():
    return 3
"""


@pytest.fixture
def files(tmp_path, data, monkeypatch):
    """A script, checkpoints of a loop with the callback, and rows, as a user has them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.py").write_text(SCRIPT)
    X, y, V, y_val = data
    np.savez(tmp_path / "data.npz", X=X, y=y, X_val=V, y_val=y_val)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(D, 48), nn.ReLU(), nn.Linear(48, CLASSES))
    callback = ProbeCallback(tmp_path / "ckpt", steps=[4])
    callback.keep(model, 0)
    optimiser = torch.optim.SGD(model.parameters(), 0.2)
    for step in range(1, 13):
        loss = nn.functional.cross_entropy(model(torch.tensor(X)), torch.tensor(y))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        callback.keep(model, step)
    callback.end(model, 12)
    return callback, model


def test_the_command_prints_json_and_writes_figure_and_page(files, tmp_path):
    from typer.testing import CliRunner

    from unlazy.cli.commands import app

    words = ["probe", "run.py:make_model", "--checkpoints", "ckpt/*.pt", "--data", "data.npz", "--rows", "60"]
    done = CliRunner().invoke(app, [*words, "--json", "--figure", "f.png", "--out", "report.html"])
    found = json.loads(done.stdout)
    assert found["results"]["checkpoint"] == [0, 4, 12]
    assert len(found["sentences"]) == 4
    assert (tmp_path / "f.png").stat().st_size > 1000
    assert "<svg" in (tmp_path / "report.html").read_text()
    plain = CliRunner().invoke(app, words)
    assert "Lazy or rich." in plain.stdout


def test_a_folder_of_activations_is_probed_without_a_model(files, tmp_path, data):
    callback, model = files
    X, _, V, _ = data
    (tmp_path / "saved").mkdir()
    for step, state in zip(callback.steps, callback.checkpoints, strict=True):
        model.load_state_dict(state)
        with torch.no_grad():
            found = {f"outputs{end}": model(torch.tensor(rows)).numpy() for end, rows in (("", X), ("_val", V))}
        np.savez(tmp_path / "saved" / f"at_{step}.npz", **found)
    report = probe_files("saved", table="data.npz", rows=60)
    assert report.dataset.checkpoint.values.tolist() == [0, 4, 12]
    assert any("no features" in note for note in report.notes)
    assert report.lazy_or_rich == "unknown"


def test_jax_parameters_are_read_into_their_structure(tmp_path, data, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y, V, y_val = data
    np.savez("data.npz", X=X, y=y, X_val=V, y_val=y_val)
    (tmp_path / "jax_run.py").write_text(
        "import jax.numpy as jnp\n"
        "def make_model():\n"
        f"    return lambda p, x: jnp.tanh(x @ p['w'][0]) @ p['a'], {{'w': [jnp.zeros(({D}, 8))], "
        f"'a': jnp.zeros((8, {CLASSES}))}}\n"
    )
    rng = np.random.default_rng(0)
    params = {"w": [rng.normal(size=(D, 8)) / 8], "a": rng.normal(size=(8, CLASSES))}
    callback = ProbeCallback("ckpt")
    callback.keep(params, 0)
    callback.end({"w": [params["w"][0] + 0.1], "a": 2 * params["a"]}, 5)
    report = probe_files("jax_run.py:make_model", "ckpt/*.npz", "data.npz", rows=50)
    changes = report.dataset.relative_change.values[-1]
    np.testing.assert_allclose(changes[0], 1.0, rtol=1e-6)
    assert report.dataset.checkpoint.values.tolist() == [0, 5]


def pickled(tmp_path):
    torch.save({"model": nn.Linear(2, 2)}, tmp_path / "ckpt" / "step_99.pt")


def pickled_whole(tmp_path):
    torch.save(nn.Sequential(nn.Linear(2, 2)), tmp_path / "ckpt" / "step_99.pt")


def pickled_old(tmp_path):
    torch.save(nn.Linear(2, 2), tmp_path / "ckpt" / "step_99.pt", _use_new_zipfile_serialization=False)


def pickled_own(tmp_path):
    torch.save(Scaled(1.0), tmp_path / "ckpt" / "step_99.pt")


def text_file(tmp_path):
    (tmp_path / "ckpt" / "step_99.pt").write_text("import torch: naïve\n" * 500)


def empty_file(tmp_path):
    (tmp_path / "ckpt" / "step_99.pt").touch()


def npz_file(tmp_path):
    with (tmp_path / "ckpt" / "step_99.pt").open("wb") as stream:
        np.savez(stream, a=np.zeros(2))


def cut_file(tmp_path):
    whole = (tmp_path / "ckpt" / "step_12.pt").read_bytes()
    (tmp_path / "ckpt" / "step_99.pt").write_bytes(whole[: len(whole) // 2])


def plain_pickle(tmp_path):
    (tmp_path / "ckpt" / "step_99.pt").write_bytes(pickle.dumps({"a": 1}))


WRONG_FILES = {
    "there is no file nothing.npz": {"table": "nothing.npz"},
    "checkpoints must be files, but none is like": {"checkpoints": "none/*.pt"},
    "checkpoints must be given for a model": {"checkpoints": None},
    "source must be a folder of activations or like run.py:make_model": {"source": "run.py"},
    "there is no Python file lost.py": {"source": "lost.py:make_model"},
    r"run.py has no function 'make_modle' \(did you mean make_model": {"source": "run.py:make_modle"},
    "run.py:broken raised KeyError": {"source": "run.py:broken"},
    "run.py:number must return a PyTorch module": {"source": "run.py:number"},
    "run.py must be a .npz file of plain arrays, as np.savez writes it, got a text file$": {"table": "run.py"},
    "one.npy must be a .npz file .* got a .npy file, a single array": {"table": "one.npy"},
    "pickled.npz must be a .npz file .* got a pickle": {"table": "pickled.npz"},
    "checkpoints must be files, but none is like ckpt: ckpt is a folder, give 'ckpt/": {"checkpoints": "ckpt"},
    "checkpoints must be at least two, .* got 1": {"checkpoints": ["ckpt/step_0.pt", "ckpt/step_0.pt"]},
    "must have the arrays X, y, X_val, y_val, it lacks y_val": {"table": "short.npz"},
    "objects.npz must hold plain arrays, got objects in X: nothing is unpickled$": {"table": "objects.npz"},
    r"step_99.pt must be a checkpoint of tensors, got an object of the class torch.nn.modules.linear.Linear; nothing "
    r"is unpickled: write it by torch.save\(model.state_dict\(\), file\)$": {"prepare": pickled},
    "step_99.pt .*got an object of the class torch.nn.modules.container.Sequential": {"prepare": pickled_whole},
    "step_99.pt .*class torch.nn.modules.linear.Linear; nothing is unpickled: write it by": {"prepare": pickled_old},
    r"step_99.pt .*got an object of the class [\w.]*Scaled; nothing is unpickled": {"prepare": pickled_own},
    r"step_99.pt must be a checkpoint of tensors, got a text file: write it by torch.save\(": {"prepare": text_file},
    "step_99.pt must be a checkpoint of tensors, got an empty file": {"prepare": empty_file},
    "step_99.pt must be a checkpoint of tensors, got a .npz file": {"prepare": npz_file},
    "step_99.pt must be a checkpoint of tensors, got a file that ends too early": {"prepare": cut_file},
    "step_99.pt must be a checkpoint of tensors, got a pickle that is damaged or holds others": {
        "prepare": plain_pickle
    },
}


@pytest.mark.parametrize("message", WRONG_FILES)
def test_wrong_files_are_refused_in_one_line_and_nothing_is_unpickled(files, tmp_path, message):
    changes = dict(WRONG_FILES[message])
    np.savez(tmp_path / "short.npz", X=np.zeros((3, 2)), y=np.zeros(3), X_val=np.zeros((3, 2)))
    np.savez(tmp_path / "objects.npz", X=np.array([{"a": 1}], dtype=object))
    np.save(tmp_path / "one.npy", np.zeros(3))
    (tmp_path / "pickled.npz").write_bytes(pickle.dumps({"a": 1}))
    changes.pop("prepare", lambda path: None)(tmp_path)
    asked = {"source": "run.py:make_model", "checkpoints": "ckpt/*.pt", "table": "data.npz", **changes}
    with pytest.raises(InputError, match=message) as raised:
        probe_files(**asked)
    said = str(raised.value)
    assert said.isprintable()
    assert len(said) < 250
    assert "allow_pickle" not in said


EARLY = [
    {"table": "nothing.npz"},
    {"table": "short.npz"},
    {"source": "run.py:make_modle"},
    {"source": "lost.py:make_model"},
    {"checkpoints": "none/*.pt"},
    {"checkpoints": ["ckpt/step_0.pt"]},
    {"checkpoints": "run*"},
    {"checkpoints": ["ckpt/step_0.pt", "whole.pt"]},
    {"table": "one_class.npz"},
    {"rows": 3},
    {"budget": 0},
]


@pytest.mark.parametrize("changes", EARLY, ids=str)
def test_wrong_files_and_rows_are_refused_before_the_script_is_run(files, tmp_path, data, changes):
    X, y, V, _ = data
    np.savez(tmp_path / "short.npz", X=X)
    np.savez(tmp_path / "one_class.npz", X=X, y=y, X_val=V, y_val=np.zeros(len(V)))
    torch.save(nn.Sequential(nn.Linear(2, 2)), tmp_path / "whole.pt")
    (tmp_path / "run.py").write_text(SCRIPT + "raise SystemExit('the script was run')\n")
    asked = {"source": "run.py:make_model", "checkpoints": "ckpt/*.pt", "table": "data.npz", **changes}
    with pytest.raises(InputError):
        probe_files(**asked)


def test_checkpoints_are_taken_in_the_order_given_each_once(files):
    from typer.testing import CliRunner

    from unlazy.cli.commands import app

    def asked(*patterns):
        words = ["probe", "run.py:make_model", "--data", "data.npz", "--rows", "50", "--json"]
        done = CliRunner().invoke(app, [*words, *(word for one in patterns for word in ("--checkpoints", one))])
        return json.loads(done.stdout)["results"]

    whole = asked("ckpt/*.pt")
    backwards = asked("ckpt/step_12.pt", "ckpt/step_4.pt", "ckpt/step_0.pt")
    assert backwards["training_fit"] == whole["training_fit"][::-1]
    assert backwards["checkpoint"] == [0, 1, 2]
    assert asked("ckpt/step_0.pt", "ckpt/*.pt")["checkpoint"] == [0, 4, 12]
    assert asked("ckpt/step_0.pt", "ckpt/step_1*.pt")["checkpoint"] == [0, 12]


def test_steps_that_do_not_begin_at_0_are_told(files):
    report = probe_files("run.py:make_model", "ckpt/step_[1-9]*.pt", "data.npz", rows=50)
    assert [note for note in report.notes if "ckpt/step_4.pt is taken for the start of training" in note]
    assert "though its step is 4 and not 0" in report.notes[-1]
    assert "lazy or rich and memory are measured from there" in str(report).replace("\n      ", " ")
    whole = probe_files("run.py:make_model", "ckpt/*.pt", "data.npz", rows=50)
    assert not any("start of training" in note for note in whole.notes)


def test_the_example_runs():
    assert doctest.testmod(importlib.import_module("unlazy.diagnostics.probing.answer")).failed == 0
