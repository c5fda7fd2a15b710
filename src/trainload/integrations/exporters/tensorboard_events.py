"""Runs as TensorBoard event files, one folder a run; written by tensorboard itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainload.integrations.exporters.told import RunTold, require_library

FOLDER = "tensorboard"


def export_to_tensorboard(runs: Sequence[RunTold], out: Path) -> list[Path]:
    """Write scalars of steps, epochs, samples and final figures, parameters as text."""
    require_library("TensorBoard", "tensorboard", "tensorboard")
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    written = []
    for told in runs:
        folder = out / FOLDER / told.name
        for before in folder.glob("events.out.tfevents.*"):
            before.unlink()  # an earlier export of this run; both together would be drawn twice
        writer = EventFileWriter(str(folder))
        try:
            _fill(writer, told)
        finally:
            writer.close()
        written.append(folder)
    return written


def _fill(writer: Any, told: RunTold) -> None:
    for kind, points in told.series.items():
        for point in points:
            named = {f"{kind}/{name}": value for name, value in point.values.items()}
            writer.add_event(_scalars(named, point.step, told.began_s + point.time_s))
    figures = {f"figures/{name}": value for name, value in told.figures.items()}
    writer.add_event(_scalars(figures, 0, told.ended_s))
    writer.add_event(_text(told))


def _scalars(values: dict[str, float], step: int, wall_s: float) -> Any:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    held = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
    return Event(step=step, wall_time=wall_s, summary=Summary(value=held))


def _text(told: RunTold) -> Any:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboard.compat.proto.types_pb2 import DT_STRING

    lines = "\n".join(f"    {name}: {value}" for name, value in told.parameters.items())
    tensor = TensorProto(
        dtype=DT_STRING, string_val=[lines.encode()], tensor_shape=TensorShapeProto()
    )
    about = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    value = Summary.Value(tag="parameters", tensor=tensor, metadata=about)
    return Event(step=0, wall_time=told.began_s, summary=Summary(value=[value]))
