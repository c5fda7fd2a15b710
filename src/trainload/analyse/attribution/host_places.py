"""Who a sampled stack belongs to: the progress bar, logging, the loader, the script's own line.

Reads names of frames alone; counts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trainload.analyse.attribution.stacks import Frame

TRACING = "tracing itself"
TORCHS = frozenset({"modules", "optimizer", "backward", "compiler", "communication",
                    "gradient clipping", "torch"})  # fmt: skip
"""What lines of torch's own are for, where they are the way to its operations."""
_TRAINERS = ("lightning/", "pytorch_lightning/", "lightning_fabric/", "transformers/",
             "accelerate/", "ignite/", "composer/", "fastai/", "lightning_utilities/")  # fmt: skip

_MODELS = ("transformers/models/", "transformers/activations.py", "transformers/pytorch_utils.py",
           "transformers/modeling", "transformers/masking_utils.py", "transformers/integrations/",
           "torchvision/models/", "timm/models/", "timm/layers/", "diffusers/models/")  # fmt: skip


class HostPlace(NamedTuple):
    """To whom an instant of the training thread belongs."""

    what: str
    """Such as `progress bar`, `logging`, `loader`, `script`; else the package."""
    package: str
    file: str
    function: str
    line: int


class _Rule(NamedTuple):
    what: str
    starts: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    """Where given, only these functions of the files."""


_RULES = (
    _Rule("progress bar", ("tqdm/", "rich/", "progressbar/"), ("callbacks/progress/",)),
    _Rule(
        "logging",
        ("logging/", "wandb/", "mlflow/", "tensorboard/", "tensorboardX/",
         "torch/utils/tensorboard/", "torchmetrics/", "comet_ml/", "neptune/", "loguru/"),
        ("/loggers/", "logger_connector"),
    ),
    _Rule("logging", _TRAINERS, (), ("log", "log_dict", "_maybe_log_save_evaluate", "log_metrics")),
    _Rule(
        "checkpoints",
        ("torch/serialization.py", "safetensors/"),
        ("callbacks/model_checkpoint", "checkpoint_connector", "checkpoint_io"),
    ),
    _Rule("checkpoints", _TRAINERS, (), ("_save_checkpoint", "save_checkpoint", "save_model")),
    _Rule("model", _MODELS),
    _Rule(
        "loader",
        ("torch/utils/data/", "torchvision/", "datasets/", "PIL/", "accelerate/data_loader.py"),
        ("loops/fetchers.py", "utilities/combined_loader.py", "data_collator.py"),
    ),
    _Rule("gradient clipping", ("torch/nn/utils/clip_grad.py",)),
    _Rule("optimizer", ("torch/optim/", "accelerate/optimizer.py", "bitsandbytes/"),
          ("pytorch/core/optimizer.py",)),
    _Rule("compiler", ("torch/_dynamo/", "torch/_inductor/", "torch/_functorch/", "triton/")),
    _Rule("communication", ("torch/distributed/", "torch/nn/parallel/")),
    _Rule("backward", ("torch/autograd/", "torch/_tensor.py", "torch/amp/")),
    _Rule("modules", ("torch/nn/",)),
    _Rule(
        "callbacks",
        ("transformers/trainer_callback.py",),
        ("/callbacks/",),
    ),
    _Rule("callbacks", _TRAINERS, (), ("_call_callback_hooks", "call_event")),
    _Rule("trainer", _TRAINERS),
)  # fmt: skip
_NEUTRAL = ("torch/_compile.py", "torch/utils/_contextlib.py", "torch/_dynamo/eval_frame.py",
            "torch/_dynamo/decorators.py", "torch/_dynamo/external_utils.py",
            "torch/autograd/profiler.py", "torch/nn/parameter.py",
            "torch/autograd/grad_mode.py")  # fmt: skip
"""Files whose functions only pass calls on."""
_NEUTRAL_FUNCTIONS = frozenset({"__setattr__", "__getattr__", "__instancecheck__"})
"""Of libraries: whoever sets or asks an attribute there does so from elsewhere."""


def place_of(frames: Sequence[Frame]) -> HostPlace | None:
    """To whom a stack, innermost frame first, belongs: the first frame that says so.

    Frames of the standard library and of torch's general parts say nothing: then who called them
    answers. None without any frame.
    """
    if not frames:
        return None
    for frame in frames:
        what = _what(frame)
        if what is not None:
            return HostPlace(what, *frame)
    return HostPlace(frames[0].package, *frames[0])


def _what(frame: Frame) -> str | None:
    if frame.package == "script":
        return "script"
    if frame.package == "trainload":
        return TRACING
    if frame.file in _NEUTRAL or frame.function in _NEUTRAL_FUNCTIONS:
        return None
    for rule in _RULES:
        if rule.functions and frame.function not in rule.functions:
            continue
        starts = frame.file.startswith(rule.starts)
        if starts or any(part in frame.file for part in rule.holds):
            return rule.what
    if frame.package in ("python", "torch"):
        return None
    return frame.package
