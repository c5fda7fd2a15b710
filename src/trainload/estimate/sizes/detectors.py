"""Layer graphs of five detectors whose sizes were published; for counting, not for training.

From the papers alone: SSD (Liu et al. 2016), R-FCN (Dai et al. 2016), MobileNet (Howard et al.
2017). Region pooling and box decoding hold no parameters and are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trainload.workload.graph.draft import GraphDraft
from trainload.workload.graph.layers import LayerGraph

CLASSES = 21
"""Pascal VOC's twenty and the background."""
_BOX = 4
_VGG = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
_MOBILENET = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5)
_CELLS = 7 * 7
"""Of R-FCN's position-sensitive maps."""


def _conv(draft: GraphDraft, name: str, channels: int, kernel: int = 3, **more: int) -> str:
    """A convolution that keeps the size unless told otherwise, and its activation."""
    given = {"padding": kernel // 2, **more}
    draft.add(f"{name}.conv", "conv2d", channels=channels, kernel=kernel, **given)
    return draft.add(f"{name}.relu", "relu")


def _heads(draft: GraphDraft, maps: Sequence[tuple[str, int]], kernel: int) -> None:
    """Boxes and classes from each map, for so many anchors a place; joined as the output."""
    flat = []
    for at, (source, anchors) in enumerate(maps, start=1):
        for word, values in (("box", _BOX), ("class", CLASSES)):
            name = f"head{at}.{word}"
            draft.add(
                f"{name}.conv",
                "conv2d",
                source,
                channels=anchors * values,
                kernel=kernel,
                padding=kernel // 2,
            )
            flat.append(draft.add(f"{name}.flatten", "flatten"))
    draft.add("output", "concat", *flat)


def _ssd_vgg(side: int) -> LayerGraph:
    draft = GraphDraft((3, side, side))
    maps = []
    for stage, (channels, count) in enumerate(_VGG, start=1):
        for number in range(1, count + 1):
            last = _conv(draft, f"conv{stage}_{number}", channels)
        if stage == 4:
            maps.append(last)
        if stage < 5:
            draft.add(f"pool{stage}", "max_pool2d", kernel=2, stride=2, ceil=True)
    draft.add("pool5", "max_pool2d", kernel=3, stride=1, padding=1)
    _conv(draft, "fc6", 1024, padding=6, dilation=6)
    maps.append(_conv(draft, "fc7", 1024, 1))
    for number, (narrow, wide) in enumerate(((256, 512), *((128, 256),) * 3), start=6):
        _conv(draft, f"conv{number}_1", narrow, 1)
        small = side == 300 and number > 7
        padding, stride = (0, 1) if small else (1, 2)
        maps.append(_conv(draft, f"conv{number}_2", wide, padding=padding, stride=stride))
    anchors = [4, 6, 6, 6, 4, 4]
    if side == 512:
        _conv(draft, "conv10_1", 128, 1)
        maps.append(_conv(draft, "conv10_2", 256, 4, padding=1))
        anchors.insert(4, 6)
    _heads(draft, list(zip(maps, anchors, strict=True)), 3)
    return draft.finish(f"ssd-vgg-{side}")


def _ssd_mobilenet() -> LayerGraph:
    draft = GraphDraft((3, 300, 300))
    _conv(draft, "conv0", 32, stride=2)
    channels, maps = 32, []
    for number, (wide, stride) in enumerate((*_MOBILENET, (1024, 2), (1024, 1)), start=1):
        draft.add(
            f"conv{number}.depthwise",
            "conv2d",
            channels=channels,
            kernel=3,
            padding=1,
            stride=stride,
            groups=channels,
        )
        draft.add(f"conv{number}.depthwise_relu", "relu")
        last = _conv(draft, f"conv{number}", wide, 1)
        channels = wide
        if number in (11, 13):
            maps.append(last)
    for number, (narrow, wide) in enumerate(((256, 512), (128, 256), (128, 256), (64, 128)), 14):
        _conv(draft, f"conv{number}_1", narrow, 1)
        maps.append(_conv(draft, f"conv{number}_2", wide, stride=2))
    _heads(draft, list(zip(maps, (3, 6, 6, 6, 6, 6), strict=True)), 1)
    return draft.finish("ssd-mobilenet-300")


def _bottleneck(
    draft: GraphDraft, name: str, width: int, *, stride: int, dilation: int, widens: bool
) -> None:
    entry = shortcut = draft.last
    for number, (channels, kernel) in enumerate(((width, 1), (width, 3), (4 * width, 1)), start=1):
        at = {"stride": stride if kernel == 3 else 1, "dilation": dilation if kernel == 3 else 1}
        draft.add(
            f"{name}.conv{number}",
            "conv2d",
            channels=channels,
            kernel=kernel,
            padding=dilation if kernel == 3 else 0,
            bias=False,
            **at,
        )
        way = draft.add(f"{name}.norm{number}", "batch_norm")
        if number < 3:
            draft.add(f"{name}.relu{number}", "relu")
    if widens:
        draft.add(
            f"{name}.shortcut.conv",
            "conv2d",
            entry,
            channels=4 * width,
            kernel=1,
            stride=stride,
            bias=False,
        )
        shortcut = draft.add(f"{name}.shortcut.norm", "batch_norm")
    draft.add(f"{name}.add", "add", way, shortcut)
    draft.add(f"{name}.relu", "relu")


def _rfcn(depths: Sequence[int]) -> LayerGraph:
    draft = GraphDraft((3, 600, 850))
    draft.add("stem.conv", "conv2d", channels=64, kernel=7, stride=2, padding=3, bias=False)
    draft.add("stem.norm", "batch_norm")
    draft.add("stem.relu", "relu")
    draft.add("stem.pool", "max_pool2d", kernel=3, stride=2, padding=1)
    shared = ""
    for stage, depth in enumerate(depths):
        for number in range(depth):
            # The last stage keeps the size and spreads its kernels instead.
            _bottleneck(
                draft,
                f"stage{stage + 1}.block{number + 1}",
                64 << stage,
                stride=2 if stage in (1, 2) and not number else 1,
                dilation=2 if stage == 3 else 1,
                widens=not number,
            )
        if stage == 2:
            shared = draft.last
    _conv(draft, "narrow", 1024, 1)
    narrow, flat = draft.last, []
    for word, source, channels in (
        ("class_maps", narrow, _CELLS * CLASSES),
        ("box_maps", narrow, _CELLS * 2 * _BOX),
    ):
        draft.add(f"{word}.conv", "conv2d", source, channels=channels, kernel=1)
        flat.append(draft.add(f"{word}.flatten", "flatten"))
    draft.add("proposals.conv", "conv2d", shared, channels=512, kernel=3, padding=1)
    proposals = draft.add("proposals.relu", "relu")
    for word, channels in (("objects", 18), ("shifts", 36)):
        draft.add(f"proposals.{word}.conv", "conv2d", proposals, channels=channels, kernel=1)
        flat.append(draft.add(f"proposals.{word}.flatten", "flatten"))
    draft.add("output", "concat", *flat)
    return draft.finish(f"rfcn-{sum(depths) * 3 + 2}")


DETECTORS: dict[str, Callable[[], LayerGraph]] = {
    "rfcn-res50-pascal": lambda: _rfcn((3, 4, 6, 3)),
    "rfcn-res101-pascal": lambda: _rfcn((3, 4, 23, 3)),
    "ssd-pascal-vggvd-300": lambda: _ssd_vgg(300),
    "ssd-pascal-vggvd-512": lambda: _ssd_vgg(512),
    "ssd-pascal-mobilenet-ft": _ssd_mobilenet,
}
"""By the names under which their sizes were published."""
