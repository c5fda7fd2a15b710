"""The log patterns that are known by name; expressions only, no reading.

Each expression begins at a word that only its kind of log has, or at the line's start, so that a
long foreign line is refused in time proportional to its length.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from trainload.analyse.collect.patterns import Pattern

_N = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_LOSS = rf"(?:{_N}|[-+]?(?:nan|NaN|inf|Inf|Infinity))"
_CLOCK = r"(?:\d+:)?\d+:\d\d"


def _also(group: str, lead: str, number: str = _N) -> str:
    """Anywhere later in the line, `lead` and a number; matches without it too."""
    return rf"(?=.*?{lead}(?P<{group}>{number})|)"


def _pattern(name: str, about: str, *expressions: str, **options: bool | int | None) -> Pattern:
    compiled = tuple(re.compile(expression) for expression in expressions)
    return Pattern(name=name, about=about, expressions=compiled, **options)  # type: ignore[arg-type]


_BAR = (
    rf"\d+%\|[^|]*\| *(?P<iteration>\d+)/(?P<iterations>\d+) \[(?P<{{elapsed}}>{_CLOCK})<[^,\]]*"
    rf"(?:, *(?:(?P<{{mean}}rate_per_s>{_N}) ?it/s|(?P<{{mean}}time_s>{_N}) ?s/it))?"
)
# tqdm's update() smooths the rate over the latest redraws; close() draws that of the whole bar.
_RUN_BAR = _BAR.format(elapsed="elapsed_clock", mean="")
# Lightning sets the bar's count itself, past update(): tqdm then draws the rate since the start.
_EPOCH_BAR = _BAR.format(elapsed="epoch_elapsed_clock", mean="mean_")

_EDGE = _pattern(
    "edge-evaluation",
    "Zanchetta's edge evaluation, each epoch: loss, accuracies, err-top1, err-top5, time cost",
    rf"^Epoch (?P<epoch>\d+)\. Loss: (?P<loss>{_LOSS}), Train acc (?P<train_accuracy>{_N}), "
    rf"Test acc (?P<test_accuracy>{_N})",
    rf"^Epoch (?P<epoch>\d+) training: err-top1=(?P<top1_error>{_N}) err-top5=(?P<top5_error>{_N})",
    rf"^Epoch (?P<epoch>\d+) time cost: (?P<epoch_time_s>{_N})",
)
_TENSORFLOW = _pattern(
    "tensorflow",
    "TensorFlow printouts: step, loss, top-1, top-n, (… examples/sec; … sec/batch)",
    r"(?:\b[Ee]poch:? ?\[?(?P<epoch>\d+)\]?, *)?"
    r"\b(?:[Ss]tep|[Ii]ter(?:ation)?):? ?(?P<iteration>\d+)"
    rf"(?:/(?P<iterations>\d+))?, *(?:[Tt]raining )?[Ll]oss *[=:] *(?P<loss>{_LOSS})"
    + _also("top1_fraction", r"[Tt]op-?1\b[a-z ]*[=:] *")
    + _also("topn_fraction", r"[Tt]op-?(?:n|[2-9]|\d\d)\b[a-z ]*[=:] *")
    + _also("samples_per_s", r"\(", rf"{_N}(?= examples/sec)")
    + _also("time_s", "[;(] ?", rf"{_N}(?= sec/(?:batch|step))"),
    rf"\bloss = (?P<loss>{_LOSS}), step = (?P<iteration>\d+)(?: \((?P<lap_s>{_N}) sec\))?",
)
_HUGGING_FACE = _pattern(
    "huggingface",
    "Hugging Face Trainer: {'loss': …, 'epoch': …} lines and its progress bar",
    rf"^ *{_RUN_BAR}",
    rf"\{{'loss': '?(?P<loss>{_LOSS})"
    + _also("learning_rate", "'learning_rate': '?")
    + _also("epoch_progress", "'epoch': '?"),
    rf"\{{'eval_loss': '?(?P<validation_loss>{_LOSS})"
    + _also("validation_time_s", "'eval_runtime': '?"),
    rf"\{{'train_runtime': '?(?P<total_time_s>{_N})",
    first_iteration=1,
    one_bar=True,
    bar_follows=True,
)
_KERAS = _pattern(
    "keras",
    "Keras: Epoch 1/10 and the bar's lines, 12/100 [===>…] - ETA: 3s - loss: …",
    r"^Epoch (?P<epoch>\d+)/(?P<epochs>\d+)\s*$",
    r"^ *(?P<iteration>\d+)/(?P<iterations>\d+) (?:\[[=>.]+\]|[━╸ ]+|-) *(?:- |\d)"
    rf"(?=.*?[\ds] (?:- )?(?:(?P<later_mean_time_s>{_N})s/(?:step|epoch)"
    rf"|(?P<later_mean_time_ms>{_N})ms/step|(?P<later_mean_time_us>{_N})us/step)|)"
    + _also("loss", r"(?<!\w)loss: ", _LOSS)
    + _also("accuracy", r"(?<!\w)acc(?:uracy)?: ")
    + _also("validation_loss", r"\bval_loss: ", _LOSS),
    # Only the whole bar states a time that has passed: before, it is the time still to come.
    r"^ *(?P<iteration>\d+)/(?P<iterations>(?P=iteration)) (?:\[=*\]|[━ ]+|-) *(?:- )?"
    r"(?P<epoch_time_s>\d+)s(?: |$)",
    first_iteration=1,
)
_MXNET = _pattern(
    "mxnet",
    "MXNet Speedometer: Epoch[0] Batch [20] Speed: … samples/sec, Epoch[0] Time cost=…",
    r"\bEpoch ?\[(?P<epoch>\d+)\] Batch ?\[(?:\d+-)?(?P<iteration>\d+)\]\s+"
    rf"Speed: *(?P<samples_per_s>{_N}) samples/s"
    + _also("accuracy", "accuracy=")
    + _also("top5_fraction", "top_k_accuracy_5=")
    + _also("loss", "(?:loss|cross-entropy)=", _LOSS),
    rf"\bEpoch ?\[(?P<epoch>\d+)\] Time cost=(?P<epoch_time_s>{_N})",
    rf"\bEpoch ?\[(?P<epoch>\d+)\] Train-accuracy=(?P<train_accuracy>{_N})",
    rf"\bEpoch ?\[(?P<epoch>\d+)\] Validation-accuracy=(?P<test_accuracy>{_N})",
    rf"\[Epoch (?P<epoch>\d+)\] [Tt]ime cost: (?P<epoch_time_s>{_N})",
    first_iteration=0,
)
_IMAGENET = _pattern(
    "pytorch-imagenet",
    "PyTorch's ImageNet example: Epoch: [0][10/5005] Time 0.35 ( 0.42) Data …",
    r"\bEpoch: \[(?P<epoch>\d+)\] ?\[ *(?P<iteration>\d+)/(?P<iterations>\d+)\]"
    rf"(?=.*?\bTime *(?P<time_s>{_N}) *\( *(?P<mean_time_s>{_N})\)|)"
    + _also("data_s", r"\bData *")
    + _also("loss", r"\bLoss *", _LOSS)
    + _also("top1_percent", r"(?:Acc|Prec)@1 *")
    + _also("top5_percent", r"(?:Acc|Prec)@5 *"),
    # torchvision's references: Epoch: [0]  [ 10/5005]  eta: 0:29:11  loss: …  time: 0.35  data: …
    r"\bEpoch: \[(?P<epoch>\d+)\] +\[ *(?P<iteration>\d+)/(?P<iterations>\d+)\] +eta:"
    + _also("loss", r"\bloss: ", _LOSS)
    + _also("time_s", r"\btime: "),
    rf"\bEpoch: \[(?P<epoch>\d+)\] Total time: (?P<epoch_time_clock>{_CLOCK})",
)
_LIGHTNING = _pattern(
    "lightning",
    "PyTorch Lightning's bar: Epoch 0:  12%|█▏ | 12/100 [00:03<00:20, 4.2it/s, train_loss=…]",
    rf"^ *Epoch (?P<epoch>\d+): *{_EPOCH_BAR}"
    + _also("loss", r"(?<!\w)(?:train_)?loss(?:_step)?=", _LOSS)
    + _also("validation_loss", r"(?<!\w)val_loss=", _LOSS),
    # Its Rich bar: Epoch 0/4  ━━━━━━━━ 12/100 0:00:03 • 0:00:20 4.20it/s train_loss: 0.5
    r"^ *Epoch (?P<epoch>\d+)/(?:(?P<last_epoch>\d+)|-\d+) +[━╸╺ ]+ "
    rf"(?P<iteration>\d+)/(?P<iterations>\d+) +(?P<epoch_elapsed_clock>{_CLOCK}) •"
    rf"(?: *(?:{_CLOCK}|-:--:--))? *(?P<rate_per_s>{_N})it/s"
    + _also("loss", r"(?<!\w)(?:train_)?loss(?:_step)?: +", _LOSS)
    + _also("validation_loss", r"(?<!\w)val_loss: +", _LOSS),
    first_iteration=1,
)
_TIMM = _pattern(
    "timm",
    "timm's train.py: Train: 0 [  50/1251 (  4%)]  Loss: …  Time: 0.35s, 731.4/s  (0.42s, …",
    r"\bTrain: (?P<epoch>\d+) \[ *(?P<iteration>\d+)/(?P<iterations>\d+) \( *\d+%\)\] +"
    rf"Loss: +(?P<loss>{_LOSS}) \( *(?P<mean_loss>{_LOSS})\)"
    rf"(?=.*?\bTime: +(?P<time_s>{_N})s, +(?P<samples_per_s>{_N})/s +\((?P<mean_time_s>{_N})s,|)"
    + _also("learning_rate", r"\bLR: +")
    + _also("data_s", r"\bData: +"),
    first_iteration=0,
)
_TQDM = _pattern(
    "tqdm",
    "any tqdm bar: 12%|█▏ | 12/100 [00:03<00:20, 4.2it/s]",
    _RUN_BAR + _also("loss", "loss=", _LOSS),
    first_iteration=1,
    one_bar=True,
    general=True,
)
_COUNTED = r"(?:global_step|step|iter|iteration|batch)"
_GENERIC = _pattern(
    "generic",
    "lines that count epochs or steps in words or JSON, with a loss, a time or a timestamp",
    rf"(?i)^(?=.*?\b(?:epoch|{_COUNTED})\b['\":=\[# ]+\d)"
    r"(?=.*?\bepoch\b['\":=\[ ]+(?P<epoch>\d+)(?![.\d])(?: */ *(?P<epochs>\d+))?|)"
    rf"(?=.*?\b{_COUNTED}\b['\":=\[# ]+(?P<iteration>\d+)(?![.\d])(?: */ *(?P<iterations>\d+))?|)"
    + _also("loss", r"(?<![\w])(?:train_|training )?loss\b['\":= ]+", _LOSS)
    + r"(?=.*?(?<![\w])(?:step_|iter_|batch_)?time(?:_s)?\b['\":= ]+"
    + rf"(?:(?P<time_ms>{_N}) ?ms\b"
    + rf"|(?P<time_s>{_N})(?![\d:\-])(?: ?s(?:ec(?:onds)?)?\b|[,;}}\s]|$))|)"
    + _also("samples_per_s", "", rf"{_N}(?= ?(?:samples|examples|images|img)/s)")
    + _also("rate_per_s", "", rf"{_N}(?= ?(?:it|iter|steps?|batch(?:es)?)/s)"),
    general=True,
)

NAMED: Final[Mapping[str, Pattern]] = {
    pattern.name: pattern
    for pattern in (
        _EDGE, _TENSORFLOW, _HUGGING_FACE, _KERAS, _MXNET, _IMAGENET, _TIMM, _LIGHTNING, _TQDM,
        _GENERIC,
    )
}  # fmt: skip
"""In order of preference: of two that fit equally many lines, the earlier is taken."""
