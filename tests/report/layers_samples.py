"""Attributions built by hand for the report's tests: sums hold as the analysis promises."""

from dataclasses import replace

import polars as pl

from trainload.analyse.attribution.types import (
    ROW_COLUMNS,
    Advice,
    EnergyShare,
    HostSampling,
    HostTime,
    LayerMemory,
    LayerNode,
    RankLayers,
    RunLayers,
    WindowCost,
)

PHASES = ("forward", "backward", "update")


def module_paths(stages=4, blocks=3):
    """Paths and classes of a residual network, parents before children."""
    paths = [("", "ResNet"), ("conv1", "Conv2d"), ("bn1", "BatchNorm2d")]
    for stage in range(1, stages + 1):
        paths.append((f"layer{stage}", "Sequential"))
        for block in range(blocks):
            base = f"layer{stage}.{block}"
            paths.append((base, "Bottleneck"))
            for n in (1, 2, 3):
                paths += [(f"{base}.conv{n}", "Conv2d"), (f"{base}.bn{n}", "BatchNorm2d")]
            paths.append((f"{base}.relu", "ReLU"))
    return [*paths, ("avgpool", "AdaptiveAvgPool2d"), ("fc", "Linear")]


def own_us(at, class_name):
    """Forward, backward, update and idle microseconds of a module itself."""
    weight = {"Conv2d": 60, "BatchNorm2d": 14, "ReLU": 6, "Linear": 30}.get(class_name, 0)
    update = 0 if class_name in ("ReLU", "Sequential", "AdaptiveAvgPool2d") else 3
    return weight * (1 + at % 5), 2 * weight * (1 + at % 5), update, 2 + at % 3


MANY = 5000
"""More modules than this stand flat below their model, so that making them stays quick."""


def make_rank(
    rank=0,
    *,
    paths=None,
    steps=6,
    root="ResNet",
    device="cuda:0",
    memory=True,
    energy=True,
    corrected=True,
    communication_us=0,
    budget=0.03,
    notes=(),
):
    """One process whose parts, nodes and rows agree with each other to the nanosecond."""
    paths = module_paths() if paths is None else paths
    own = {path: own_us(at, kind) for at, (path, kind) in enumerate(paths)}
    outer = {"loss": 140, "input": 900, "copy": 260, "communication": communication_us}
    outer |= {"idle: synchronise": 310, "script": 45, "remainder": 420}
    columns = list(zip(*own.values(), strict=True)) if own else [(0,)] * 4
    sums = [sum(column) for column in columns]
    parts = dict(zip((*PHASES, "idle: host"), sums, strict=True)) | outer
    parts = {name: us * 1e-6 for name, us in parts.items() if us}
    step_s = sum(parts.values())
    nodes = tuple(
        _node(root, path, kind, own, step_s, at, memory, energy)
        for at, (path, kind) in enumerate(paths)
    )
    rows = [
        row
        for step in range(steps)
        for row in _rows_of_step(rank, step // 2, 20 * (step // 2) + step, root, own, outer)
    ]
    return RankLayers(
        rank=rank,
        device=device,
        step_s=step_s,
        traced_step_s=step_s * 1.3 if corrected else step_s,
        corrected=corrected,
        explained_fraction=1 - parts["remainder"] / step_s,
        parts=parts,
        hidden_communication_s=communication_us * 0.5e-6,
        busy_s=sum(sums[:3]) * 1e-6,
        nodes=nodes,
        rows=_frame(rows),
        cost=WindowCost(
            windows=max(steps // 2, 1),
            cost_s=0.21,
            fraction=0.018 if budget is not None else None,
            budget=budget,
        ),
        notes=tuple(notes),
    )


def make_layers(ranks=1, *, advice=None, **options):
    """A run of some processes; the last of several is the straggler."""
    made = tuple(
        make_rank(rank, communication_us=800 if ranks > 1 else 0, **options)
        for rank in range(ranks)
    )
    if advice is None:
        advice = [
            Advice(topic="input_wait", fraction=0.31),
            Advice(topic="memory_short", fraction=0.92, subject="layer1.0.conv1"),
        ]
        if ranks > 1:
            advice.append(Advice(topic="straggler", fraction=0.07, subject=f"rank {ranks - 1}"))
    return RunLayers(ranks=made, advice=tuple(advice))


def _node(root, path, kind, own, step_s, at, memory, energy):
    flat = path and len(own) > MANY  # then no module has others below it
    below = [own[path]] if flat else [us for other, us in own.items() if _is_within(other, path)]
    inclusive_s = sum(sum(us) for us in below) * 1e-6
    joules = inclusive_s * 400
    weights = 36864 * (1 + at % 7) if kind in ("Conv2d", "Linear") else 0
    return LayerNode(
        root=root,
        layer=path,
        class_name=kind,
        depth=path.count(".") + 1 if path else 0,
        **dict(
            zip(
                ("forward_s", "backward_s", "update_s", "idle_s"),
                (us * 1e-6 for us in own[path]),
                strict=True,
            )
        ),
        inclusive_s=inclusive_s,
        calls=3.0 + at % 4,
        memory=LayerMemory(
            parameters=weights,
            parameter_bytes=4 * weights,
            gradient_bytes=4 * weights,
            optimizer_bytes=8 * weights,
            activation_bytes=2**20 * (at % 9),
            peak_bytes=2**30 + 2**20 * at,
        )
        if memory
        else None,
        energy=EnergyShare(energy_j=joules, low_j=joules * 0.9, high_j=joules * 1.1)
        if energy
        else None,
    )


def _is_within(path, above):
    return not above or path == above or path.startswith(f"{above}.")


def _rows_of_step(rank, window, step, root, own, outer):
    slower = 1 + 0.05 * (step % 3)

    def row(kind, us, *, layer=None, phase=None, cause=None):
        of = root if layer is not None else None
        return (
            rank,
            window,
            step,
            kind,
            of,
            layer,
            phase,
            cause,
            us * 1e-6 * slower,
            us * 1.3e-6,
            1,
        )

    for path, us in own.items():
        for phase, spent in zip(PHASES, us[:3], strict=True):
            if spent:
                yield row("layer", spent, layer=path, phase=phase)
        yield row("idle", us[3], layer=path, phase="forward", cause="host")
    for name, us in outer.items():
        if us:
            kind, _, cause = name.partition(": ")
            yield row(kind, us, cause=cause or None)


def _frame(rows):
    texts = ("kind", "root", "layer", "phase", "cause")
    types = {
        name: pl.String if name in texts else pl.Float64 if name.endswith("_s") else pl.Int64
        for name in ROW_COLUMNS
    }
    return pl.DataFrame(rows, schema=types, orient="row")


def with_host(rank, *, python_us=300):
    """The same process with its host sampled: of the remainder some is Python at known places."""
    parts = dict(rank.parts)
    parts["python"] = python_us * 1e-6
    parts["remainder"] -= python_us * 1e-6
    outside = {("script", "script", "train.py", 41): 0.5,
               ("progress bar", "tqdm", "tqdm/std.py", 9): 0.25,
               ("logging", "lightning", "lightning/<b>.py", 3): 0.25}  # fmt: skip
    preparing = {("modules", "torch", "torch/nn/modules/module.py", 88): 1.0}
    host = [
        HostTime(part=part, what=what, package=package, file=file, function="run", line=line,
                 time_s=share * parts[part], samples=7)
        for part, places in (("python", outside), ("idle: host", preparing))
        for (what, package, file, line), share in places.items()
    ]  # fmt: skip
    return replace(
        rank,
        parts=parts,
        explained_fraction=1 - parts["remainder"] / rank.step_s,
        host=tuple(sorted(host, key=lambda one: -one.time_s)),
        sampling=HostSampling(
            windows=3, taken=28, rate_hz=940.0, period_s=1e-3, own_s=5e-6, waited_fraction=0.1,
            refusals=("the training does not run in the main thread",),
        ),
    )  # fmt: skip
