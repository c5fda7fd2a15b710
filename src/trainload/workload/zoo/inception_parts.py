"""The convolution that both Inceptions are made of."""

from trainload.workload.graph.draft import GraphDraft

Pair = int | tuple[int, int]


def add_conv(
    draft: GraphDraft,
    name: str,
    channels: int,
    kernel: Pair,
    *,
    stride: int = 1,
    padding: Pair = 0,
    source: str | None = None,
) -> str:
    """Add convolution, batch norm and ReLU, on the last layer where no source is named."""
    draft.add(
        f"{name}.conv",
        "conv2d",
        source or draft.last,
        channels=channels,
        kernel=kernel,
        stride=stride,
        padding=padding,
        bias=False,
    )
    # 0.001 is the value of the authors' own code.
    draft.add(f"{name}.norm", "batch_norm", eps=0.001)
    return draft.add(f"{name}.relu", "relu")
