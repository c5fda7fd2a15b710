"""The op trace: a real step dispatched on fake tensors says what CUDA or the CPU would allocate."""

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from worker_specs import SOURCE_FOLDER

from trainload.checked import to_json
from trainload.errors import UsageError, WorkloadError
from trainload.estimate.counts.operations import operation_flop
from trainload.estimate.memory.op_trace import (
    Allocation,
    Free,
    Mark,
    Operation,
    OpTrace,
    load_op_trace,
)
from trainload.run.workers.op_trace import OpTraceRequest, parse_build, spawn_op_trace
from trainload.workload import Workload, assemble_workload

torch = pytest.importorskip("torch", reason="needs torch")
pytestmark = pytest.mark.framework("torch")

GUESSED = "an attention mask of unknown numbers was taken for a causal one"
HERE = Path(__file__).parent
MODELS = HERE / "op_trace_models.py"

BUILDS = {
    "attention": {},
    "attention_bf16": {"function": "attention", "precision": "bf16"},
    "attention_ampere": {"function": "attention", "precision": "bf16", "capability": [8, 0]},
    "bias_whole": {},
    "bias_whole_bf16": {"function": "bias_whole", "precision": "bf16"},
    "bias_strided": {},
    "encoder_causal": {},
    "encoder_other": {},
    "encoder_unknown": {},
    "residual": {},
    "residual_bf16": {"function": "residual", "precision": "bf16"},
    "residual_fp16": {"function": "residual", "precision": "fp16"},
    "recurrent": {},
    "recurrent_bf16": {"function": "recurrent", "precision": "bf16"},
    "residual_turing": {"function": "residual", "precision": "bf16", "capability": [7, 5]},
    "reads": {},
    "masked": {},
    "packed": {},
    "aligned": {},
    "experts": {},
    "compiled": {},
    "older": {},
    "checked": {},
    "chooses": {},
    "channels_last": {},
    "attention_cpu": {"function": "attention", "target": "cpu"},
    "attention_cpu_bf16": {"function": "attention", "target": "cpu", "precision": "bf16"},
    "perceptron_cpu": {"function": "perceptron", "target": "cpu"},
    "residual_cpu": {"function": "residual", "target": "cpu"},
    "shared": {},
    "plain_sgd": {"function": "residual", "optimizer": "sgd"},
}
FP16_ON_CPU = {"function": "perceptron", "target": "cpu", "precision": "fp16"}
PROBLEMS = {
    "branches": "op_trace_models.py line {line}: the step branches on the value of a tensor",
    "written_over": "line {line}: the step branches on the value of a tensor",
    "sparse": "tensors of layout torch.sparse_coo cannot be traced: use dense ones",
    "scripted": "scripted modules (torch.jit.script) cannot be traced",
    "custom": "op_trace_tests.twice.default has no fake implementation",
    "never_ends": "no 2 steps within 1 s (--limit-s); 0 were seen",
    "gives_nothing": "the loss function gives nothing",
    "gives_many": "a tensor of shape (4, 10), not one number",
    "frozen": "nothing in the model requires a gradient",
    "raises": "line {line}: raises(4) raised ValueError: no batch of 4",
    "alone": "alone must return the module and a function",
    "absent": "op_trace_models.py has no function absent; it has Attention, attention",
}


def make_document(folder: Path, name: str, **changes: Any) -> dict[str, Any]:
    options = {"function": name, "precision": "float32", "optimizer": "adamw", "target": "cuda"}
    options |= {"capability": [9, 0], "limit_s": 60.0, "batch_size": 4, **changes}
    return {
        "format": 2,
        "task": "trace",
        "events_path": str(folder / f"{name}.jsonl"),
        "framework": "torch",
        "setting": {},
        "source": {"path": str(MODELS), "function": options["function"]},
        "training": {
            "batch_size": options["batch_size"],
            "epochs": 1,
            "precision": options["precision"],
            "optimizer": {"name": options["optimizer"], "learning_rate": 0.001, "momentum": 0.0},
        },
        "trace_path": str(folder / f"{name}.gz"),
        "target": options["target"],
        "capability": options["capability"],
        "iterations": 2,
        "limit_s": options["limit_s"],
    }


def graph_parts(workload: Workload) -> dict[str, Any]:
    """What the document of a built-in model's step has in place of a function's."""
    parts = {"data": workload.data, "training": workload.training}
    return {"source": to_json(workload.graph.to_spec()), **to_json(parts)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything traced once: one load of torch for all of it."""
    folder = tmp_path_factory.mktemp("traces")
    documents = [make_document(folder, name, **changes) for name, changes in BUILDS.items()]
    for name in PROBLEMS:
        limit_s = 1.0 if name == "never_ends" else 60.0
        documents.append(make_document(folder, name, limit_s=limit_s))
    documents.append(make_document(folder, "fp16_cpu", **FP16_ON_CPU))
    zoo = make_document(folder, "resnet18")
    options = {"batch_size": 8, "optimizer": "adamw"}
    documents.append({**zoo, **graph_parts(assemble_workload("resnet18", options))})
    older = make_document(folder, "resnet18_on_t4", capability=[7, 5])
    documents.append({**older, **graph_parts(assemble_workload("resnet18", options))})
    small = make_document(folder, "lenet5", target="cpu")
    documents.append({**small, **graph_parts(assemble_workload("lenet5", {"batch_size": 4}))})
    script = make_document(folder, "script")
    del script["training"]
    common = {name: script[name] for name in ("events_path", "framework", "setting")}
    script["source"] = {**common, "path": str(HERE / "op_trace_script.py")}
    documents.append(script)
    environment = {**os.environ, "PYTHONPATH": str(SOURCE_FOLDER)}
    subprocess.run(
        [sys.executable, str(HERE / "op_trace_runs.py")],
        input=json.dumps(documents).encode(),
        env=environment,
        check=True,
        timeout=300,
    )
    return folder


def reason(folder: Path, name: str) -> str | None:
    last = json.loads((folder / f"{name}.jsonl").read_text().splitlines()[-1])
    return last.get("reason")


def load(folder: Path, name: str) -> tuple[OpTrace, list[Any]]:
    assert reason(folder, name) is None
    trace = load_op_trace(folder / f"{name}.gz")
    return trace, list(trace.events())


def count_names(events: list[Any], step: int = 1, phase: str | None = None) -> Counter[str]:
    return Counter(
        event.name.split(".")[1]
        for event in events
        if isinstance(event, Operation) and event.step == step and phase in (None, event.phase)
    )


def sum_bytes(events: list[Any], category: str) -> int:
    return sum(e.size_bytes for e in events if isinstance(e, Allocation) and e.category == category)


def peak_bytes(events: list[Any]) -> int:
    held, live, peak = {}, 0, 0
    for event in events:
        if isinstance(event, Allocation):
            held[event.storage] = event.size_bytes
            live += event.size_bytes
            peak = max(peak, live)
        elif isinstance(event, Free):
            live -= held.pop(event.storage)
    return peak


def test_without_attention_a_step_is_the_same_on_every_gpu(folder: Path) -> None:
    """Why one trace of such a graph in float32 serves all of them."""
    (older, events), (newer, same) = (load(folder, f"resnet18{end}") for end in ("_on_t4", ""))
    assert events == same and len(events) > 1000
    assert (older.layers, older.notes) == (newer.layers, newer.notes)


def test_a_zoo_model_s_trace_is_whole(folder: Path) -> None:
    trace, events = load(folder, "resnet18")
    assert (trace.framework, trace.target, trace.iterations) == ("torch", "cuda", 2)
    assert (trace.batch_size, trace.precision, trace.optimizer) == (8, "float32", "adamw")
    parameters = sum(layer.parameters for layer in trace.layers)
    assert parameters == 11_689_512
    assert sum_bytes(events, "weight") == 4 * parameters
    assert sum_bytes(events, "gradient") == 2 * 4 * parameters  # once a step
    assert sum_bytes(events, "optimizer") == 2 * 4 * parameters
    marks = [(event.text, event.step) for event in events if isinstance(event, Mark)]
    parts = ("step begin", "backward begin", "update begin", "step end")
    assert marks == [(text, step) for step in (0, 1) for text in parts]
    held: set[int] = set()
    for event in events:
        if isinstance(event, Allocation):
            assert event.storage not in held
            held.add(event.storage)
        elif isinstance(event, Free):
            held.remove(event.storage)
        elif isinstance(event, Operation):
            assert {tensor.storage for tensor in event.inputs} <= held
    names = {layer.name for layer in trace.layers}
    told = [e for e in events if isinstance(e, Operation) and e.phase == "backward"]
    assert all(e.layer is None or e.layer in names for e in told)
    assert sum(e.layer is not None for e in told) > 0.9 * len(told)


def test_each_step_leaves_what_it_found(folder: Path) -> None:
    _, events = load(folder, "residual")
    held, ends = set(), []
    for event in events:
        if isinstance(event, Allocation):
            held.add(event.storage)
        elif isinstance(event, Free):
            held.discard(event.storage)
        elif isinstance(event, Mark) and event.text == "step end":
            ends.append(set(held))
    sizes = {e.storage: e.size_bytes for e in events if isinstance(e, Allocation)}
    totals = [sum(sizes[number] for number in end) for end in ends]
    assert totals[0] == totals[1]


def test_modules_that_many_hold_keep_their_own_weights(folder: Path) -> None:
    _, events = load(folder, "shared")
    sizes = [*range(100, 120), *range(8, 48)]
    assert sum_bytes(events, "weight") == 4 * sum(size * size + size for size in sizes)


def test_cuda_chooses_its_own_kernels(folder: Path) -> None:
    _, events = load(folder, "residual")
    names = count_names(events)
    assert names["cudnn_batch_norm"] == names["cudnn_batch_norm_backward"] == 2
    assert not names["native_batch_norm"]
    assert names["_foreach_addcdiv_"] == 1, "optimizers take their foreach kernels"
    recurrent = count_names(load(folder, "recurrent")[1])
    assert recurrent["_cudnn_rnn"] == recurrent["_cudnn_rnn_backward"] == 1
    assert count_names(load(folder, "attention")[1])["native_dropout"] == 1


def test_recurrent_layers_keep_what_cudnn_keeps(folder: Path) -> None:
    _, events = load(folder, "recurrent")
    calls = [e for e in events if isinstance(e, Operation) and "_cudnn_rnn" in e.name]
    sizes = {e.storage: e.size_bytes for e in events if isinstance(e, Allocation)}
    forward, backward = calls[:2]
    # Five values a unit, step and layer, and the output between two layers.
    assert sizes[forward.outputs[3].storage] == 256 + 4 * 20 * 64 * (5 * 2 + 1) * 4
    assert forward.outputs[0].strides == (64, 4 * 64, 1), "the steps are outermost"
    weights = {t.storage for t in forward.inputs[1:9]}
    gradients = {t.storage for t in backward.outputs}
    assert len(weights) == len(gradients) == 1
    assert sizes[weights.pop()] == sizes[gradients.pop()]


def test_autocast_casts_recurrent_weights_into_one_buffer(folder: Path) -> None:
    _, events = load(folder, "recurrent_bf16")
    forward = next(e for e in events if isinstance(e, Operation) and "_cudnn_rnn" in e.name)
    assert {t.dtype for t in forward.inputs} == {"bfloat16"}
    assert len({t.storage for t in forward.inputs[1:9]}) == 1
    casts = count_names(events, phase="backward")["_to_copy"]
    assert casts >= 8, "each gradient is cast by itself"


def test_values_read_from_tensors_are_told(folder: Path) -> None:
    trace, _ = load(folder, "reads")
    lines = MODELS.read_text().splitlines()
    line = next(n for n, text in enumerate(lines, 1) if "the line that is read on" in text)
    told = f"1 value was read from tensors and taken as 1: op_trace_models.py line {line}"
    assert trace.notes == (told,)
    assert load(folder, "residual")[0].notes == ()


def named(folder: Path, build: str, operation: str) -> list[Operation]:
    _, events = load(folder, build)
    return [e for e in events if isinstance(e, Operation) and e.name.split(".")[1] == operation]


def test_numbers_of_the_batch_are_known(folder: Path) -> None:
    assert load(folder, "masked")[0].notes == ()
    assert {e.outputs[0].shape for e in named(folder, "masked", "nonzero")} == {(3, 1)}
    assert {e.outputs[0].shape for e in named(folder, "masked", "index")} == {(3, 10)}


def test_unknown_sizes_are_the_largest(folder: Path) -> None:
    trace, _ = load(folder, "chooses")
    assert {e.outputs[0].shape for e in named(folder, "chooses", "index")} == {(40,)}
    (note,) = trace.notes
    assert note.startswith("sizes that depend on numbers were taken for the largest")


def test_a_check_of_unknown_numbers_finds_nothing_amiss(folder: Path) -> None:
    (note,) = load(folder, "checked")[0].notes
    assert note.startswith("checks of unknown numbers were taken to find nothing amiss: op_trace")


def test_packed_sequences_have_the_places_of_their_lengths(folder: Path) -> None:
    calls = named(folder, "packed", "_cudnn_rnn")
    assert {e.inputs[0].shape for e in calls} == {(40, 32)}
    assert len(named(folder, "packed", "_cudnn_rnn_backward")) == len(calls) == 2


def test_operations_without_a_rule_of_torch_s_have_one_here(folder: Path) -> None:
    alpha = named(folder, "aligned", "_ctc_loss")[0].outputs[1]
    assert alpha.shape == (4, 50, 2 * 6 + 1)
    if not hasattr(torch, "_grouped_mm"):
        pytest.skip("this torch has no products of groups")
    products = named(folder, "experts", "_grouped_mm")
    shapes = [e.outputs[0].shape for e in products if e.step == 1]
    assert shapes == [(32, 24), (4, 16, 24)]
    assert [operation_flop(e) for e in products if e.step == 1] == [2 * 32 * 16 * 24] * 2


def test_tensors_are_made_as_older_programs_do(folder: Path) -> None:
    _, events = load(folder, "older")
    assert sum_bytes(events, "weight") == 4 * 110
    (lost,) = {e.outputs[0].shape for e in named(folder, "older", "addmm")}
    assert lost == (4, 10)


def test_what_may_need_less_is_said_to_be_so(folder: Path) -> None:
    assert load(folder, "chooses")[0].at_most
    assert not load(folder, "masked")[0].at_most


def test_a_compiled_model_is_traced_uncompiled(folder: Path) -> None:
    (note,) = load(folder, "compiled")[0].notes
    assert note.startswith("torch.compile is left out")


def test_older_gpus_emulate_bf16(folder: Path) -> None:
    trace, _ = load(folder, "residual_turing")
    assert trace.notes == ("a GPU of capability 7.5 has no bf16 arithmetic: torch emulates it",)


def test_rows_of_a_graph_are_inputs_on_the_cpu_too(folder: Path) -> None:
    _, events = load(folder, "lenet5")
    sizes = {e.storage: (e.size_bytes, e.category) for e in events if isinstance(e, Allocation)}
    first = next(e for e in events if isinstance(e, Operation) and "convolution" in e.name)
    assert first.inputs[0].shape == (4, 1, 32, 32)
    assert sizes[first.inputs[0].storage] == (4 * 32 * 32 * 4, "input")


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("attention", "efficient"),
        ("attention_bf16", "cudnn"),
        ("attention_ampere", "flash"),
        ("bias_whole", "efficient"),
        ("bias_whole_bf16", "efficient"),
    ],
)
def test_attention_follows_type_and_capability(folder: Path, name: str, kernel: str) -> None:
    names = count_names(load(folder, name)[1])
    assert names[f"_scaled_dot_product_{kernel}_attention"] == 1
    assert names[f"_scaled_dot_product_{kernel}_attention_backward"] == 1


def test_no_fused_attention_reads_a_bias_across_its_rows(folder: Path) -> None:
    names = count_names(load(folder, "bias_strided")[1])
    assert not [name for name in names if name.startswith("_scaled_dot_product")]
    assert names["_softmax"] + names["_safe_softmax"] == 1


@pytest.mark.parametrize(
    ("name", "causal", "notes"),
    [
        ("encoder_causal", True, ()),
        ("encoder_other", False, ()),
        ("encoder_unknown", True, (GUESSED,)),
    ],
)
def test_torch_s_encoder_is_told_whether_its_mask_is_causal(
    folder: Path, name: str, causal: bool, notes: tuple[str, ...]
) -> None:
    trace, events = load(folder, name)
    attended = [
        e
        for e in events
        if isinstance(e, Operation) and e.name.endswith("efficient_attention.default")
    ]
    # Without the mask beside query, key and value where the kernel itself leaves places out.
    assert {len(e.inputs) for e in attended} == {3 if causal else 4}
    assert trace.notes == notes


@pytest.mark.parametrize(
    ("name", "first", "beyond"),
    [
        ("residual", [0, 0], [1000, 0]),
        ("attention", [0, 0], [1000, 0]),
        ("attention_bf16", [9, 0], [11, 0]),
        ("attention_ampere", [8, 0], [9, 0]),
        ("residual_turing", [7, 5], [7, 6]),
    ],
)
def test_a_trace_says_which_capabilities_share_it(
    folder: Path, name: str, first: list[int], beyond: list[int]
) -> None:
    last = json.loads((folder / f"{name}.jsonl").read_text().splitlines()[-1])
    assert last["alike"] == [first, beyond]


def test_a_layout_goes_through_convolutions(folder: Path) -> None:
    _, events = load(folder, "channels_last")
    convolution = next(
        e for e in events if isinstance(e, Operation) and e.name == "aten.convolution.default"
    )
    assert convolution.outputs[0].shape == (4, 64, 30, 30)
    assert convolution.outputs[0].strides == (57600, 1, 1920, 64)


def test_autocast_casts_each_weight_once(folder: Path) -> None:
    _, events = load(folder, "attention_bf16")
    products = [e for e in events if isinstance(e, Operation) and e.name.startswith("aten.addmm")]
    assert products
    assert all(t.dtype == "bfloat16" for e in products for t in (*e.inputs, *e.outputs))


def test_gradients_meet_in_place_where_nobody_else_holds_them(folder: Path) -> None:
    backward = count_names(load(folder, "residual")[1], phase="backward")
    assert backward["add_"] == 2
    assert not backward["add"]


def test_shared_weights_stay_one(folder: Path) -> None:
    trace, events = load(folder, "attention")
    own = 500 * 64 + 2 * 64 + 64 * 192 + 192 + 64 * 64 + 64
    assert sum_bytes(events, "weight") == 4 * own
    assert sum_bytes(events, "optimizer") == 8 * own
    assert {layer.name for layer in trace.layers} >= {"tokens", "head"}


def test_plain_sgd_keeps_nothing(folder: Path) -> None:
    assert sum_bytes(load(folder, "plain_sgd")[1], "optimizer") == 0


@pytest.mark.parametrize("name", ["attention_cpu", "attention_cpu_bf16", "perceptron_cpu"])
def test_the_cpu_s_peak_is_that_of_a_real_step(folder: Path, name: str) -> None:
    options = BUILDS[name]
    real = measure_peak(str(options["function"]), str(options.get("precision", "float32")))
    assert peak_bytes(load(folder, name)[1]) == pytest.approx(real, rel=0.01)


def test_the_cpu_takes_its_own_kernels(folder: Path) -> None:
    names = count_names(load(folder, "residual_cpu")[1])
    assert names["native_batch_norm"] == 2
    assert not any(name.startswith(("cudnn", "_foreach")) for name in names)
    assert count_names(load(folder, "attention_cpu")[1])[
        "_scaled_dot_product_flash_attention_for_cpu"
    ]


def measure_peak(function: str, precision: str) -> int:
    """Peak of what torch's allocator on the CPU hands out in two real steps."""
    from torch.profiler import ProfilerActivity, profile

    spec = importlib.util.spec_from_file_location("op_trace_models", MODELS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model, loss = getattr(module, function)(4)
    held = [*model.parameters(), *model.buffers()]
    held += [c.cell_contents for c in loss.__closure__ if isinstance(c.cell_contents, torch.Tensor)]
    live = sum({t.data_ptr(): t.untyped_storage().nbytes() for t in held}.values())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001, weight_decay=0.0)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        for _ in range(2):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                value = loss()
            value.backward()
            optimizer.step()
    peak = live
    events = [e for e in found.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak


def test_a_script_runs_as_it_stands(folder: Path) -> None:
    trace, events = load(folder, "script")
    assert trace.iterations == 2
    assert trace.optimizer == "sgd"
    weights = 32 * 27 + 32 + 2 * 32 + 6272 * 10 + 10
    # The copy that the script keeps beside its model is none the optimizer knows of.
    assert sum_bytes(events, "optimizer") == 4 * weights
    names = count_names(events, step=1)
    assert names["convolution"] == names["cudnn_batch_norm"] + names["native_batch_norm"] == 1
    assert names["_amp_foreach_non_finite_check_and_unscale_"] == 1
    layers = {e.layer for e in events if isinstance(e, Operation) and e.phase == "forward"}
    assert {"0", "1", "4"} <= layers


@pytest.mark.parametrize(("name", "words"), PROBLEMS.items(), ids=list(PROBLEMS))
def test_what_cannot_be_traced_is_said_in_one_line(folder: Path, name: str, words: str) -> None:
    said = reason(folder, name)
    assert said is not None
    places = {"branches": "if total > 0:", "written_over": "if flags.sum() > 0:"}
    own = {**places, "raises": "raise ValueError("}.get(name, "")
    lines = MODELS.read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if own in text)
    assert words.replace("{line}", str(line)) in said
    assert "\n" not in said
    if name in ("branches", "written_over", "custom", "never_ends"):
        assert "--measure" in said


def test_a_worker_is_spawned_and_its_word_becomes_an_error(tmp_path: Path) -> None:
    shown: list[str] = []
    build = parse_build(f"{MODELS}:perceptron", batch_size=8)
    request = OpTraceRequest(source=build, python=sys.executable)
    result = spawn_op_trace(request, tmp_path, shown.append)
    assert result.steps == 2
    assert result.path == tmp_path / "ops.jsonl.gz"
    assert load_op_trace(result.path).batch_size == 8
    assert shown
    assert shown[0].startswith("tracing operations: ")
    broken = parse_build(f"{MODELS}:raises", batch_size=8)
    with pytest.raises(WorkloadError, match="no batch of 8"):
        spawn_op_trace(OpTraceRequest(source=broken, python=sys.executable), tmp_path)


@pytest.mark.parametrize("text", ["my.py", "my.py:", "my.txt:build", "nowhere.py:build", ":build"])
def test_what_names_no_build_function_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_build(text, batch_size=8)


def test_fp16_is_bf16_and_a_scaler(folder: Path) -> None:
    _, wide = load(folder, "residual_bf16")
    _, events = load(folder, "residual_fp16")
    names = [event.name for event in events if isinstance(event, Operation)]
    check = "aten._amp_foreach_non_finite_check_and_unscale_.default"
    assert names.count(check) == names.count("aten._amp_update_scale_.default") == 2
    kinds = {out.dtype for e in events if isinstance(e, Operation) for out in e.outputs}
    assert "float16" in kinds and "bfloat16" not in kinds
    # Its scale, growth count and flags are a few numbers beside what bf16 holds.
    assert 0 < len([n for n in names if "amp" in n]) <= 4
    for category in ("weight", "gradient", "optimizer"):
        assert sum_bytes(events, category) == sum_bytes(wide, category)


def test_fp16_is_refused_on_the_cpu(folder: Path) -> None:
    assert "fp16 with its gradient scaler is for GPUs" in (reason(folder, "fp16_cpu") or "")
