"""The factored tangent kernel against brute force, layer kind by layer kind."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra torch")

from torch import nn  # noqa: E402

from unlazy.diagnostics.probing.torch_kernel import tangent_kernel  # noqa: E402


class Flat(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x).flatten(1)[:, :3]


class Tied(nn.Module):
    """An embedding that is also the readout, and a layer that is used twice."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 4, padding_idx=2)
        self.middle = nn.Linear(4, 4)
        self.readout = nn.Linear(4, 7, bias=False)
        self.readout.weight = self.embedding.weight

    def forward(self, x):
        hidden = torch.tanh(self.middle(self.embedding(x)))
        return self.readout(torch.tanh(self.middle(hidden))).mean(dim=1)[:, :3]


class Attention(nn.Module):
    def __init__(self, batch_first, own):
        super().__init__()
        self.attention = nn.MultiheadAttention(6, 2, batch_first=batch_first)
        self.other = nn.Linear(6, 6)
        self.readout = nn.Linear(6, 3)
        self.batch_first, self.own = batch_first, own

    def forward(self, x):
        x = x if self.batch_first else x.transpose(0, 1)
        other = x if self.own else self.other(x)
        found = self.attention(x, other, other)[0]
        return self.readout(found.mean(dim=1 if self.batch_first else 0))


class Folded(nn.Module):
    """Rows and positions along one axis."""

    def __init__(self):
        super().__init__()
        self.first, self.readout = nn.Linear(6, 5), nn.Linear(20, 3)

    def forward(self, x):
        return self.readout(torch.relu(self.first(x.reshape(-1, 6))).reshape(len(x), -1))


class Strange(nn.Module):
    """Parameters that no known layer uses, one that is also used by one, and a position embedding."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6))
        self.places = nn.Embedding(4, 6)
        self.first, self.readout = nn.Linear(6, 6), nn.Linear(6, 3)
        self.idle = nn.Linear(3, 3)
        self.first.weight = self.weight

    def forward(self, x):
        x = x + self.places(torch.arange(4))
        return self.readout(torch.tanh(self.first(x) @ self.weight).mean(dim=1))


def images(*shape):
    return torch.randn(9, *shape)


def tokens():
    return torch.randint(0, 7, (9, 5))


CONV = {
    "plain": lambda: nn.Conv2d(2, 6, 3),
    "strided": lambda: nn.Conv2d(2, 6, (3, 2), stride=(2, 1), padding=(1, 0)),
    "dilated": lambda: nn.Conv2d(2, 6, 3, dilation=2, padding=2, bias=False),
    "grouped": lambda: nn.Conv2d(2, 6, 3, groups=2, padding=1),
    "same": lambda: nn.Conv2d(2, 6, (2, 3), padding="same"),
    "reflected": lambda: nn.Conv2d(2, 6, 3, padding=1, padding_mode="reflect"),
}
MODELS = {
    "dense": lambda: (Flat(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)), images(5)),
    "dense on positions": lambda: (Flat(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2)), images(4, 5)),
    "in place": lambda: (Flat(nn.Linear(5, 8), nn.ReLU(inplace=True), nn.Linear(8, 3)), images(5)),
    "dense on two positions": lambda: (Flat(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 2)), images(2, 16)),
    "one axis": lambda: (Flat(nn.Conv1d(3, 4, 3, stride=2, padding=1, dilation=2), nn.ELU()), images(3, 9)),
    "batch norm": lambda: (Flat(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)),
                           images(2, 6, 6)),
    "batch norm of columns": lambda: (Flat(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)), images(5)),
    "layer norm": lambda: (Flat(nn.Linear(5, 8), nn.LayerNorm((4, 8)), nn.Tanh(), nn.Linear(8, 2)), images(4, 5)),
    "group norm": lambda: (Flat(nn.Conv2d(2, 6, 3), nn.GroupNorm(3, 6), nn.Tanh(), nn.Conv2d(6, 2, 2)),
                           images(2, 5, 5)),
    "embedding": lambda: (Flat(nn.Embedding(7, 4, padding_idx=1), nn.Tanh(), nn.Flatten(), nn.Linear(20, 3)), tokens()),
    "shared": lambda: (Tied(), tokens()),
    "attention": lambda: (Attention(True, True), images(4, 6)),
    "attention, time first": lambda: (Attention(False, True), images(4, 6)),
    "attention to others": lambda: (Attention(True, False), images(4, 6)),
    "transformer": lambda: (Flat(nn.TransformerEncoderLayer(6, 2, 8, batch_first=True), nn.Linear(6, 1)),
                            images(4, 6)),
    "folded": lambda: (Folded(), images(4, 6)),
}  # fmt: skip


def convolved(make):
    return lambda: (Flat(make(), nn.Tanh(), nn.Conv2d(6, 4, 2)), images(2, 6, 5))


MODELS |= {f"convolution, {name}": convolved(make) for name, make in CONV.items()}


@pytest.fixture(autouse=True)
def _float64():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)


def made(name):
    model, x = MODELS[name]()
    for buffer in model.buffers():
        if buffer.is_floating_point():
            buffer.copy_(torch.rand_like(buffer) + 0.5)
    return model.eval(), x


def brute_force(model, x):
    """(n, K, n, K), one gradient after the other."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    rows = []
    for one in x:
        for value in model(one[None])[0]:
            grads = torch.autograd.grad(value, parameters, retain_graph=True, allow_unused=True)
            rows.append(
                torch.cat([(p * 0 if g is None else g).flatten() for p, g in zip(parameters, grads, strict=True)])
            )
    flat = torch.stack(rows).detach().numpy()
    k = len(flat) // len(x)
    return (flat @ flat.T).reshape(len(x), k, len(x), k)


@pytest.mark.parametrize("budget", [2**30, 40_000])
@pytest.mark.parametrize("name", MODELS)
def test_the_kernel_is_that_of_brute_force(name, budget):
    model, x = made(name)
    expected = brute_force(model, x)
    size = np.abs(expected).max()
    each = tangent_kernel(model, x, each_output=True, budget=budget)
    assert each.by_samples == ()
    np.testing.assert_allclose(each.values, expected, rtol=0, atol=1e-10 * size)
    mean = tangent_kernel(model, x, left=4, budget=budget)
    np.testing.assert_allclose(mean.values, np.einsum("ikjk->ij", expected)[:4] / 3, rtol=0, atol=1e-10 * size)


def test_what_no_known_layer_uses_is_left_to_per_sample_gradients_and_said():
    model, x = Strange().eval(), images(4, 6)
    expected = brute_force(model, x)
    for budget in (2**30, 30_000):
        found = tangent_kernel(model, x, each_output=True, budget=budget)
        assert set(found.by_samples) == {"weight", "places.weight"}
        np.testing.assert_allclose(found.values, expected, atol=1e-10 * np.abs(expected).max())
        mean = tangent_kernel(model, x, left=5, budget=budget).values
        np.testing.assert_allclose(mean, np.einsum("ikjk->ij", expected)[:5] / 3, rtol=1e-10)


def test_permuting_neurons_changes_nothing():
    model, x = made("dense")
    before = tangent_kernel(model, x).values
    first, second = model.layers[0], model.layers[2]
    order = torch.randperm(8)
    with torch.no_grad():
        first.weight.copy_(first.weight[order])
        first.bias.copy_(first.bias[order])
        second.weight.copy_(second.weight[:, order])
    np.testing.assert_allclose(tangent_kernel(model, x).values, before, rtol=1e-12)


def test_rescaling_two_layers_so_that_the_function_stays_scales_their_kernels_inversely():
    model = Flat(nn.Linear(5, 8, bias=False), nn.ReLU(), nn.Linear(8, 3, bias=False)).eval()
    x = images(5)

    def parts():
        found = []
        for wanted in (0, 2):
            for i in (0, 2):
                model.layers[i].weight.requires_grad_(True)
            other = nn.Sequential(*model.layers)
            frozen = other[2 - wanted].weight.detach()
            jac = torch.func.jacrev(lambda w, i=wanted, f=frozen: torch.relu(x @ (w if i == 0 else f).T)
                                    @ (w if i == 2 else f).T)(model.layers[wanted].weight.detach())  # fmt: skip
            found.append(torch.einsum("ikab,jkab->ij", jac, jac).numpy() / 3)
        return found

    first, second = parts()
    np.testing.assert_allclose(tangent_kernel(model, x).values, first + second, rtol=1e-10)
    with torch.no_grad():
        model.layers[0].weight.mul_(4.0)
        model.layers[2].weight.div_(4.0)
    np.testing.assert_allclose(tangent_kernel(model, x).values, first / 16 + second * 16, rtol=1e-10)


def test_the_model_is_left_as_it_was():
    model, x = made("dense")
    model.layers[0].weight.requires_grad_(False)
    tangent_kernel(model, x)
    assert [p.requires_grad for p in model.parameters()] == [False, True, True, True, True, True]
    assert all(p.grad is None for p in model.parameters())


def test_frozen_parameters_are_not_in_the_kernel():
    model, x = made("dense")
    model.layers[0].requires_grad_(False)
    np.testing.assert_allclose(tangent_kernel(model, x, each_output=True).values, brute_force(model, x), atol=1e-12)
