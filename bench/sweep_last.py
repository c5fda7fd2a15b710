"""Times a GPU's work on images whose channels lie innermost, and puts it beside a calibration's.

    python bench/sweep_last.py --seconds 50 --out FILE                       # on the GPU's machine
    python bench/sweep_last.py --points FILE --add-to FILES/h200.json --keep h200

As `trainload calibrate` does it, those families alone: for a calibration that was taken before they
were among its families. Points of such families that the calibration has already are replaced;
those of whole steps stay.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any


class Heard:
    """Keeps what a sweep says."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def write(self, event: Any) -> bool:
        """Takes one event."""
        self.events.append(event)
        return True


def measure(seconds: float, out: Path) -> None:
    """Writes the points that the first GPU gives in that time."""
    import torch

    from trainload_worker.frameworks.torch.sweep.cases import LAST
    from trainload_worker.frameworks.torch.sweep.devices import CudaDevice
    from trainload_worker.frameworks.torch.sweep.sweep import Sweep
    from trainload_worker.protocol.spec import SettingSpec, SweepSpec
    from trainload_worker.protocol.sweep import SweepLack, SweepPoint

    setting = SettingSpec(cores=None, threads=None, accelerators=())
    spec = SweepSpec(
        events_path="", framework="torch", target="cuda", limit_s=seconds, setting=setting, hold_s=0
    )
    device = CudaDevice()
    device.warm_up()
    heard = Heard()
    sweep = Sweep(device, heard, lambda: None, spec, only=lambda case: case.family.startswith(LAST))
    sweep.open()
    sweep.measure_points()
    points = [asdict(event) for event in heard.events if isinstance(event, SweepPoint)]
    lacks = [asdict(event) for event in heard.events if isinstance(event, SweepLack)]
    said = {"device": device.name, "torch": torch.__version__, "points": points, "lacks": lacks}
    out.write_text(json.dumps(said))
    print(f"{len(points)} points of {device.name}; lacking: {lacks}")


def add(source: Path, target: Path, row: str | None) -> None:
    """Writes the calibration anew with the points of `source`."""
    from raw import keep
    from trainload.hardware.calibrations import Point, load_calibrations
    from trainload.hardware.calibrations.form import to_document

    said = json.loads(source.read_text())
    names = ("operation", "dtype", "sizes", "flops", "bytes", "seconds")
    more = [Point(**{name: point[name] for name in names}) for point in said["points"]]
    old = load_calibrations()[target.stem]
    stay = [one for one in old.points if one.within_step or not one.sizes.get("channels_last")]
    stay.sort(key=lambda point: point.within_step)
    alone = [point for point in stay if not point.within_step]
    words = "points with channels innermost: bench/sweep_last.py on another machine of the kind"
    notes = (*(note for note in old.notes if note != words), words)
    new = replace(old, points=(*alone, *more, *stay[len(alone) :]), notes=notes)
    text = json.dumps(to_document(new), separators=(",", ":"), ensure_ascii=False)
    target.write_text(text + "\n")
    print(f"{len(more)} points more in {target}")
    if row:
        keep("sweep_last", row, figures=[said])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=50.0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--points", type=Path)
    parser.add_argument("--add-to", type=Path)
    parser.add_argument("--keep", metavar="ROW")
    words = parser.parse_args()
    if words.out is not None:
        measure(words.seconds, words.out)
    elif words.points is not None and words.add_to is not None:
        add(words.points, words.add_to, words.keep)
    else:
        parser.error("give --out FILE, or --points FILE --add-to FILE")


if __name__ == "__main__":
    main()
