"""The published relation of dataflows under other sizes: does it hang on a choice of ours?

    .venv/bin/python bench/dataflow_published.py

Prints, for AlexNet's layers as published, energy over that of row stationary. Nothing is measured.
"""

from dataclasses import replace

from trainload.estimate.dataflow.accelerator import (
    DATAFLOWS,
    Accelerator,
    change_accelerator,
    load_accelerator,
)
from trainload.estimate.dataflow.answer import estimate_dataflows
from trainload.estimate.dataflow.shapes import published_shapes


def cases() -> list[tuple[str, int, Accelerator]]:
    base = load_accelerator()
    areas = [(f"area {a}", 16, replace(base, register_area_per_buffer_area=a)) for a in (1.0, 2.2)]
    wide = change_accelerator(base, elements=1024)
    batches = [(f"batch {n}", n, base) for n in (1, 16, 64, 256)]
    return [*batches, *areas, *((f"1024 elements, batch {n}", n, wide) for n in (16, 64))]


def main() -> None:
    print("case".ljust(26), "layers".ljust(16), *(name.rjust(15) for name in DATAFLOWS))
    for name, batch, hardware in cases():
        found = estimate_dataflows(name, published_shapes(batch), batch, hardware)
        for kind in ("convolution", "fully connected"):
            total = found.total(kind)
            assert total is not None
            ratios = (total.ratio(flow) for flow in DATAFLOWS)
            told = ("–" if ratio is None else f"{ratio:.2f}" for ratio in ratios)
            print(name.ljust(26), kind.ljust(16), *(one.rjust(15) for one in told), flush=True)


if __name__ == "__main__":
    main()
