"""What the names of operations tell of a training, and what samples tell of the machine."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from kineto import Trace

from trainload.analyse.attribution.machine import FewThreads, _few_threads, find_machine
from trainload.analyse.attribution.steps import HostStep
from trainload.analyse.attribution.traits import TraitsReader
from trainload.analyse.attribution.types import Traits
from trainload.record import open_run
from trainload.record.parts import AskedSetting, RecordedSetting
from trainload_worker.protocol.events import Obtained

STEP = HostStep(step=1, begin_ns=0, end_ns=1000)


def traits_of(trace: Trace, *modules: dict[str, Any]) -> Traits:
    reader = TraitsReader()
    reader.add(trace.window(), [STEP])
    return reader.traits(modules)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "loader", "main"),
        ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "loader", "workers"),
        ("Optimizer.step#AdamW.step", "optimizer", "AdamW"),
        ("Optimizer.step#AdamW.step", "update", "single"),
    ],
)
def test_a_range_tells_how_the_training_is_set_up(name: str, field: str, value: str) -> None:
    trace = Trace()
    trace.host(name, 10, 90, category="user_annotation")
    assert getattr(traits_of(trace), field) == value
    assert getattr(traits_of(Trace()), field) is None


@pytest.mark.parametrize(
    ("operation", "form"), [("_fused_adam_", "fused"), ("_foreach_add_", "foreach")]
)
def test_the_form_of_the_update_is_read_from_its_operations(operation: str, form: str) -> None:
    trace = Trace()
    trace.host("Optimizer.step#Adam.step", 10, 90, category="user_annotation")
    trace.host(f"aten::{operation}", 20, 80)
    assert traits_of(trace).update == form


def test_a_forward_pass_without_gradients_takes_no_new_sequence_numbers() -> None:
    trace = Trace()
    for start, numbers in ((0, (5, 6, 7)), (500, (8, 8, 8))):
        trace.host("layer:Net:", start, start + 300, category="user_annotation")
        trace.host("layer:Net:a", start + 5, start + 250, category="user_annotation")
        for at, number in enumerate(numbers):
            trace.forward("aten::mm", start + 10 + 50 * at, start + 40 + 50 * at, number)
    windows = traits_of(trace).windows
    assert windows is not None and windows[0].gradientless_fraction == pytest.approx(0.3)


def test_a_module_that_the_loader_calls_is_no_forward_pass() -> None:
    trace = Trace()
    loading = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    trace.host(loading, 0, 400, category="user_annotation")
    trace.host("layer:Resize:", 10, 300, category="user_annotation")
    trace.forward("aten::upsample_bilinear2d", 20, 280, 5)
    trace.host("layer:Net:", 500, 600, category="user_annotation")
    trace.forward("aten::mm", 510, 590, 5)
    windows = traits_of(trace).windows
    assert windows is not None and windows[0].gradientless_fraction == pytest.approx(0.1)


def test_copies_of_optimizer_and_loader_are_their_own_matter() -> None:
    trace = Trace()
    trace.host("aten::copy_", 0, 100)
    trace.host("Optimizer.step#Adam.step", 200, 400, category="user_annotation")
    trace.host("aten::copy_", 250, 350)
    windows = traits_of(trace).windows
    assert windows is not None and windows[0].copies_fraction == pytest.approx(0.1)


def test_products_in_float32_are_told_from_lower_precision() -> None:
    trace = Trace()
    trace.kernel(0, 200, 0, name="ampere_sgemm_128x64_nn")
    trace.kernel(300, 400, 250, name="sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn")
    trace.kernel(500, 600, 450, name="elementwise_kernel")
    windows = traits_of(trace).windows
    assert windows is not None and windows[0].full_precision_fraction == pytest.approx(0.2)


def test_parameters_tell_their_precision() -> None:
    module = {"parameters": 10, "parameter_bytes": 80}
    assert traits_of(Trace(), module).parameter_bytes == 8.0
    assert traits_of(Trace()).parameter_bytes is None


def test_a_machine_that_nobody_measured_is_not_judged(make_run: Any) -> None:
    machine = find_machine(open_run(make_run(samples=False)))
    assert machine.host_load_fraction is None and machine.throttled_fraction is None
    assert machine.memory_fraction is None and machine.swap_fraction is None


def test_the_systems_share_is_told_where_page_faults_take_it(make_run: Any) -> None:
    paging = find_machine(open_run(make_run(faults_per_s=200_000)))
    assert paging.kernel_fraction == pytest.approx(1 / 3, rel=1e-3)
    assert paging.page_faults_per_s == pytest.approx(200_000, rel=1e-3)
    other = find_machine(open_run(make_run(faults_per_s=1_000)))
    assert other.kernel_fraction is None and other.page_faults_per_s is None


@pytest.mark.parametrize(
    ("threads", "asked", "load", "found"),
    [
        (1, None, 0.25, FewThreads(threads=1, cores=4)),
        (1, None, 0.75, FewThreads(threads=1, cores=2)),  # others keep two cores busy
        (4, None, 0.25, None),
        (1, 1, 0.25, None),  # somebody wanted it so
        (1, None, None, None),
    ],
)
def test_threads_are_few_where_cores_were_free(
    make_run: Any, threads: int, asked: int | None, load: float | None, found: FewThreads | None
) -> None:
    run = open_run(make_run())
    setting = RecordedSetting(
        asked=AskedSetting(threads=asked), obtained=Obtained(cores=(0, 1, 2, 3), threads=threads)
    )
    assert run.manifest.machine is not None
    machine = replace(run.manifest.machine, logical_cores=4, physical_cores=4, cpu_quota_cores=None)
    told = replace(run.manifest, setting=setting, machine=machine)
    assert _few_threads(SimpleNamespace(manifest=told), load) == found  # type: ignore[arg-type]
