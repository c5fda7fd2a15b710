"""The same graph, weights and batches give the same numbers in every framework as in torch.

Each framework computes all cases of a group in one process of its own environment; torch computes
them here. Without an environment its tests are skipped, with the command that makes one.
"""

from typing import Any

import pytest
from framework_runs import OTHERS, case, chain, model

numpy = pytest.importorskip("numpy", reason="needs numpy")
pytest.importorskip("torch", reason="needs torch, the other side of every comparison")
from parity_cases import computing, difference, small  # noqa: E402

pytestmark = pytest.mark.long

IMAGE = (4, 13, 11)
EVEN = (4, 12, 11)
END = (("flatten", {}), ("linear", {"units": 5}))


def conv(**attributes: Any) -> Any:
    return chain(IMAGE, ("conv2d", {"channels": 6, "kernel": 3, **attributes}), ("relu", {}), *END)


def pool(kind: str, shape: Any = EVEN, **attributes: Any) -> Any:
    return chain(shape, (kind, {"kernel": 3, "stride": 2, **attributes}), *END)


def adaptive(shape: Any, size: Any) -> Any:
    return chain(shape, ("adaptive_avg_pool2d", {"size": size}), *END)


KINDS = {
    "conv, odd": conv(kernel=[3, 2], stride=[2, 1], padding=[1, 0]),
    "conv, groups": conv(groups=2, bias=False),
    "conv, dilated": conv(dilation=2, padding=2),
    "max, padded": pool("max_pool2d", padding=1),
    "max, rounded up": pool("max_pool2d", padding=1, ceil=True),
    "max, cut": pool("max_pool2d", (4, 7, 7), kernel=2, stride=3, padding=1, ceil=True),
    "mean, padding counted": pool("avg_pool2d", padding=1),
    "mean, padding left out": pool("avg_pool2d", padding=1, count_padding=False),
    "mean, rounded up": pool("avg_pool2d", padding=1, ceil=True),
    "mean, both": pool("avg_pool2d", padding=1, ceil=True, count_padding=False),
    "mean, cut": pool("avg_pool2d", (4, 7, 7), kernel=2, stride=3, padding=1, ceil=True),
    "adaptive, one": adaptive(IMAGE, 1),
    "adaptive, uneven": adaptive(IMAGE, [6, 4]),
    "adaptive, larger": adaptive((4, 2, 1), 3),
    "adaptive, even": adaptive((4, 12, 8), [6, 4]),
    "batch norm": chain(IMAGE, ("batch_norm", {"momentum": 0.3, "eps": 1e-3}), *END),
    "batch norm, flat": chain((9,), ("batch_norm", {}), ("tanh", {}), ("linear", {"units": 5})),
    "layer norm": chain((9,), ("layer_norm", {"eps": 1e-3}), ("linear", {"units": 5})),
    "layer norm, image": chain(IMAGE, ("layer_norm", {}), *END),
    "softmax, image": chain(IMAGE, ("softmax", {}), *END),
    "activations": chain(
        IMAGE,
        *((kind, {}) for kind in ("leaky_relu", "tanh", "sigmoid", "silu", "gelu")),
        *END,
    ),
    "add": chain(IMAGE, ("tanh", {"name": "t"}), ("add", {"inputs": ("input", "t", "t")}), *END),
    "concat": chain(IMAGE, ("tanh", {"name": "t"}), ("concat", {"inputs": ("input", "t")}), *END),
    "concat, time": chain(
        (6, 8), ("tanh", {"name": "t"}), ("concat", {"inputs": ("input", "t")}), *END
    ),
    "lstm": chain((6, 8), ("lstm", {"layers": 2, "hidden": 7}), ("last_step", {}), END[1]),
    "attention": chain(
        (6, 8),
        ("position_embedding", {}),
        ("self_attention", {"heads": 2}),
        ("linear_over_time", {"units": 9}),
        ("mean_over_time", {}),
        END[1],
    ),
    "attention, causal": chain((6, 8), ("self_attention", {"heads": 4, "causal": True}), *END),
    "stream": chain(
        (6,),
        ("embedding", {"vocabulary": 11, "width": 8}),
        ("lstm", {"hidden": 4}),
        ("linear_over_time", {"units": 11}),
        dtype="int64",
    ),
}
TRAINED = ("mlp", "lenet5", "alexnet", "squeezenet1_1", "resnet18")
OPTIMIZERS = ("sgd", "adam", "adamw", "rmsprop", "adagrad")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Computes a group of cases once for each framework."""
    groups = {
        "kinds": {name: case(graph) for name, graph in KINDS.items()},
        # At 32 × 32 the last batch norm of resnet18 would stand on one place of each image.
        "steps": {
            name: case(
                small(name, 64 if name == "resnet18" else None),
                # AlexNet's loss would leap at the others' rate, and rounding with it.
                learning_rate=5e-5 if name == "alexnet" else 5e-4,
            )
            for name in TRAINED
        },
        "optimizers": {
            name: case(model("mlp"), name=name, learning_rate=2e-4, weight_decay=1e-2)
            for name in OPTIMIZERS
        },
    }
    return computing(groups, tmp_path_factory)


@pytest.mark.parametrize("framework", OTHERS)
def test_every_kind_gives_the_same_logits_and_losses(results: Any, framework: str) -> None:
    found, expected = results("kinds", framework), results("kinds", "torch")
    for name in KINDS:
        assert difference(found[f"{name}/before"], expected[f"{name}/before"]) < 1e-5, name
        assert numpy.abs(found[f"{name}/loss"] - expected[f"{name}/loss"]).max() < 1e-5, name
        # MXNet's running variance is another one, which its run.json says.
        other = framework == "mxnet" and name.startswith("batch norm")
        after = difference(found[f"{name}/after"], expected[f"{name}/after"])
        assert after < (0.05 if other else 1e-4), name


@pytest.mark.parametrize("framework", OTHERS)
def test_five_steps_of_sgd_have_the_same_losses(results: Any, framework: str) -> None:
    found, expected = results("steps", framework), results("steps", "torch")
    for name in TRAINED:
        losses = found[f"{name}/loss"]
        assert len(losses) == 5 and abs(losses[4] - losses[0]) > 0.01, name
        assert numpy.abs(losses - expected[f"{name}/loss"]).max() < 1e-3, name


@pytest.mark.parametrize("framework", OTHERS)
def test_every_optimizer_has_torch_s_update_rule(results: Any, framework: str) -> None:
    found, expected = results("optimizers", framework), results("optimizers", "torch")
    for name in OPTIMIZERS:
        assert numpy.abs(found[f"{name}/loss"] - expected[f"{name}/loss"]).max() < 1e-4, name
        assert difference(found[f"{name}/after"], expected[f"{name}/after"]) < 1e-3, name
