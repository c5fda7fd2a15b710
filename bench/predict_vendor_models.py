"""Nine models of NVIDIA's DeepLearningExamples as lists of works, by their published sizes.

Written down from the models' configurations and the benchmark's own (config_pytorch_48GB.sh: no
option for the layout, so images are nchw; Transformer-XL large has 256 tokens), not traced:
products, convolutions, recurrent layers and the row-wise operations beside them, forward and
backward. `vendor_works(model, batch, half)` gives one step and the items that it trains. fp16 is
autocast; without it products may be TF32.
"""

from __future__ import annotations

from dataclasses import replace

from trainload.predict.work import Work

PARAMETERS = {
    "resnet50": 25.6e6,
    "ssd": 22e6,
    "bert_base_squad": 110e6,
    "bert_large_squad": 335e6,
    "gnmt": 160e6,
    "transformerxlbase": 192e6,
    "transformerxllarge": 257e6,
    "tacotron2": 28e6,
    "waveglow": 268e6,
}
_STAGES = ((3, 64, 256, 56), (4, 128, 512, 28), (6, 256, 1024, 14), (3, 512, 2048, 7))


class _Step:
    """Collects the works of a step."""

    def __init__(self, half: bool) -> None:
        self.works: list[Work] = []
        self._product = "float16" if half else "tf32"
        self._row = "float16" if half else "float32"
        self._bytes = 2.0 if half else 4.0

    def linear(self, m: int, n: int, k: int, many: int = 1) -> None:
        sizes = {"m": m, "n": n, "k": k} if many == 1 else {"batch": many, "m": m, "n": n, "k": k}
        forward = Work(
            operation="linear" if many == 1 else "bmm",
            dtype=self._product,
            sizes=sizes,
            flops=2.0 * many * m * n * k,
            bytes=self._bytes * many * (m * k + k * n + m * n),
        )
        self.works += [forward, *[replace(forward, phase="backward")] * 2]

    def conv(self, batch: int, ins: int, outs: int, size: int, kernel: int, stride: int) -> None:
        out = size // stride
        sizes = {
            "batch": batch, "in_channels": ins, "out_channels": outs, "height": size,
            "width": size, "kernel": kernel, "stride": stride, "groups": 1,
        }  # fmt: skip
        forward = Work(
            operation="conv",
            dtype=self._product,
            sizes=sizes,
            flops=2.0 * batch * out**2 * ins * outs * kernel**2,
            bytes=self._bytes * (batch * (ins * size**2 + outs * out**2) + ins * outs * kernel**2),
            channels_last=False,
        )
        self.works += [
            forward,
            replace(forward, operation="conv_grad_input", phase="backward"),
            replace(forward, operation="conv_grad_weight", phase="backward"),
        ]
        self.rows("norm", batch * out**2, outs, 2)
        self.rows("elementwise", batch * out**2, outs, 2)

    def rows(self, kind: str, rows: int, width: int, operands: int) -> None:
        moved = self._bytes * rows * width * operands
        sizes = {"rows": rows, "width": width}
        if kind == "elementwise":
            sizes = {"elements": rows * width, "operands": operands}
        forward = Work(operation=kind, dtype=self._row, sizes=sizes, flops=0.0, bytes=moved)
        self.works += [forward, replace(forward, phase="backward", bytes=1.5 * moved)]

    def lstm(self, batch: int, steps: int, hidden: int) -> None:
        flops = 2.0 * batch * steps * 8 * hidden * hidden
        forward = Work(
            operation="lstm",
            dtype=self._product,
            sizes={"batch": batch, "steps": steps, "input": hidden, "hidden": hidden, "layers": 1},
            flops=flops,
            bytes=self._bytes * (8 * hidden * hidden + 6 * batch * steps * hidden),
        )
        back = replace(forward, operation="lstm_backward", phase="backward", flops=2 * flops)
        self.works += [forward, back]

    def update(self, parameters: float, passes: int) -> None:
        self.works.append(
            Work(
                operation="optimizer",
                dtype="float32",
                sizes={"elements": int(parameters), "tensors": 100},
                flops=0.0,
                bytes=4.0 * passes * parameters,
                phase="update",
            )
        )


def vendor_works(model: str, batch: int, half: bool) -> tuple[list[Work], float]:
    """The works of one step and the items that it trains, as the published table counts them."""
    step = _Step(half if model != "waveglow" else False)
    items = _MODELS[model](step, batch)
    step.update(PARAMETERS[model], 10)
    return step.works, items


def _resnet(step: _Step, batch: int, scale: float = 1.0, stages: int = 4) -> float:
    step.conv(batch, 3, 64, round(224 * scale), 7, 2)
    step.rows("elementwise", batch * round(112 * scale) ** 2, 64, 2)
    ins = 64
    for stage, (blocks, narrow, wide, size) in enumerate(_STAGES[:stages]):
        side = round(size * scale)
        for block in range(blocks):
            stride = 2 if block == 0 and stage else 1
            step.conv(batch, ins, narrow, side * stride, 1, 1)
            step.conv(batch, narrow, narrow, side * stride, 3, stride)
            step.conv(batch, narrow, wide, side, 1, 1)
            if block == 0:
                step.conv(batch, ins, wide, side * stride, 1, stride)
            step.rows("elementwise", batch * side**2, wide, 3)
            ins = wide
    step.linear(batch, 1000, 2048)
    return float(batch)


def _ssd(step: _Step, batch: int) -> float:
    """ResNet-50 up to its third stage at 300 pixels, which keeps 38 places, and the heads."""
    _resnet(step, batch, 300 / 224, 3)
    for _ in range(3):
        step.conv(batch, 256, 256, 38, 3, 1)
    return float(batch)


def _blocks(
    step: _Step, batch: int, tokens: int, keys: int, sizes: tuple[int, int, int], extra: int
) -> None:
    blocks, width, heads = sizes
    rows, side = batch * tokens, width // heads
    for _ in range(blocks):
        step.linear(rows, 3 * width, width)
        for _ in range(1 + extra):
            step.linear(tokens, keys, side, batch * heads)
        for _ in range(2 + extra):
            step.rows("elementwise", batch * heads * tokens, keys, 2)
        step.rows("softmax", batch * heads * tokens, keys, 2)
        step.linear(tokens, side, keys, batch * heads)
        step.linear(rows, width, width)
        step.linear(rows, 4 * width, width)
        step.rows("elementwise", rows, 4 * width, 2)
        step.linear(rows, width, 4 * width)
        for _ in range(2):
            step.rows("norm", rows, width, 2)
            step.rows("elementwise", rows, width, 3)
            step.rows("elementwise", rows, width, 2)


def _bert(step: _Step, batch: int, sizes: tuple[int, int, int]) -> float:
    _blocks(step, batch, 384, 384, sizes, 0)
    return float(batch)


def _transformer_xl(step: _Step, batch: int, tokens: int, sizes: tuple[int, int, int]) -> float:
    _blocks(step, batch, tokens, 2 * tokens, sizes, 1)
    rows = batch * tokens
    step.linear(rows, 20000, sizes[1])
    step.rows("softmax", rows, 20000, 2)
    return float(rows)


def _gnmt(step: _Step, batch: int) -> float:
    tokens = 28
    for _ in range(9):
        step.lstm(batch, tokens, 1024)
    for _ in range(3):
        step.linear(batch * tokens, 4096, 1024)
    step.linear(batch * tokens, 32320, 1024)
    step.rows("softmax", batch * tokens, 32320, 2)
    return float(batch * tokens * 2)


def _tacotron(step: _Step, batch: int) -> float:
    """A decoder that makes one frame after the other: cells of 1,024 on the whole batch."""
    frames = 600
    for _ in range(frames):
        step.linear(batch, 4096, 1792)
        step.linear(batch, 4096, 2560)
        step.linear(batch, 256, 1024)
        for _ in range(8):
            step.rows("elementwise", batch, 1024, 3)
        step.rows("softmax", batch, 150, 2)
        step.rows("elementwise", batch * 150, 128, 3)
    for _ in range(8):
        step.linear(batch * frames, 512, 2560)
        step.rows("norm", batch * frames, 512, 2)
    return float(batch * frames)


def _waveglow(step: _Step, batch: int) -> float:
    samples = 8000
    rows = batch * samples // 8
    for _ in range(12):
        for _ in range(8):
            step.linear(rows, 1024, 512 * 3)
            step.linear(rows, 1024, 512)
            step.linear(rows, 1024, 640)
            for _ in range(3):
                step.rows("elementwise", rows, 1024, 3)
    return float(batch * samples)


_MODELS = {
    "resnet50": _resnet,
    "ssd": _ssd,
    "bert_base_squad": lambda step, batch: _bert(step, batch, (12, 768, 12)),
    "bert_large_squad": lambda step, batch: _bert(step, batch, (24, 1024, 16)),
    "gnmt": _gnmt,
    "transformerxlbase": lambda step, batch: _transformer_xl(step, batch, 192, (16, 512, 8)),
    "transformerxllarge": lambda step, batch: _transformer_xl(step, batch, 256, (18, 1024, 16)),
    "tacotron2": _tacotron,
    "waveglow": _waveglow,
}
