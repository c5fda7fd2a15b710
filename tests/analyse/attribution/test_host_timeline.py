from kineto import AUTOGRAD, MAIN, NODE, Trace

from trainload.analyse.attribution.host import choose_layering, follow_host
from trainload.analyse.attribution.timeline import (
    NOWHERE,
    HostTimeline,
    Mode,
    Owner,
)


def follow(trace: Trace, way_in_ns: int = 0) -> HostTimeline:
    window = trace.window()
    return follow_host(window, choose_layering(window), way_in_ns=way_in_ns)


def owner_at(host: HostTimeline, at: int, thread: int = 0) -> tuple[Owner, Mode] | None:
    state = host.threads[thread].at(at)
    return None if state == NOWHERE else tuple(host.states[state])  # type: ignore[return-value]


def layer(path: str, phase: str) -> Owner:
    return Owner("layer", "Net", path, phase)  # type: ignore[arg-type]


def test_of_operations_with_one_number_the_last_begun_made_the_node() -> None:
    trace = Trace()
    trace.host("layer:Net:a", 0, 100)
    trace.forward("aten::linear", 10, 90, 5)
    trace.forward("aten::to", 20, 30, 5)
    trace.host("layer:Net:b", 100, 200)
    trace.forward("aten::size", 110, 115, 6)
    trace.host("layer:Net:b.inner", 120, 190)
    trace.forward("aten::relu", 130, 180, 6)
    trace.node("ReluBackward0", 300, 350, 6)
    trace.node("AddmmBackward0", 360, 400, 5)
    trace.host(NODE + "torch::autograd::AccumulateGrad", 400, 410)
    host = follow(trace)
    assert owner_at(host, 320) == (layer("b.inner", "backward"), Mode.OPERATION)
    assert owner_at(host, 380) == (layer("a", "backward"), Mode.OPERATION)
    assert owner_at(host, 405) == (layer("a", "backward"), Mode.OPERATION)
    assert owner_at(host, 355) == (layer("a", "backward"), Mode.RANGE)
    assert list(host.layers) == [("Net", "a"), ("Net", "b"), ("Net", "b.inner")]
    assert host.unknown_nodes == 0


def test_operations_after_the_forward_are_the_loss_only_with_a_node_of_their_own() -> None:
    trace = Trace()
    trace.forward("aten::mul", 0, 5, 0)
    trace.host("layer:Net:", 10, 100)
    trace.forward("aten::linear", 20, 90, 1)
    trace.forward("aten::argmax", 100, 110, 2)
    trace.forward("aten::cross_entropy_loss", 120, 160, 2)
    trace.forward("aten::nll_loss", 130, 150, 3)
    trace.host("trainload.backward", 170, 300)
    trace.node("NllLossBackward0", 180, 200, 3)
    trace.node("AddmmBackward0", 210, 290, 1)
    trace.forward("aten::_foreach_norm", 310, 320, 4)
    host = follow(trace)
    script = (Owner("script"), Mode.OPERATION)
    assert owner_at(host, 2) == script
    assert owner_at(host, 105) == script
    assert owner_at(host, 125) == (Owner("loss", None, None, "forward"), Mode.OPERATION)
    assert owner_at(host, 190) == (Owner("loss", None, None, "backward"), Mode.OPERATION)
    assert owner_at(host, 175) == (Owner("loss", None, None, "backward"), Mode.RANGE)
    assert owner_at(host, 315) == script
    assert owner_at(host, 305) is None


def test_a_recomputed_forward_is_backward_and_its_nodes_are_its_layers() -> None:
    trace = Trace()
    trace.host("layer:Net:", 0, 100)
    trace.forward("CheckpointFunction", 5, 90, 7)
    trace.host("layer:Net:a", 10, 80)
    trace.host("aten::linear", 20, 70)
    trace.host(NODE + "x", 200, 500, AUTOGRAD, **{"Sequence number": 7, "Fwd thread id": 1})
    trace.host("layer:Net:a", 210, 300, AUTOGRAD)
    trace.forward("aten::linear", 220, 290, 0, AUTOGRAD)
    trace.node("AddmmBackward0", 310, 450, 0, AUTOGRAD, forward=2)
    host = follow(trace)
    assert owner_at(host, 50) == (layer("a", "forward"), Mode.OPERATION)
    assert owner_at(host, 205, 1) == (layer("", "backward"), Mode.OPERATION)
    assert owner_at(host, 250, 1) == (layer("a", "backward"), Mode.OPERATION)
    assert owner_at(host, 400, 1) == (layer("a", "backward"), Mode.OPERATION)


def test_a_closure_run_by_the_optimizer_keeps_its_layers_and_loss() -> None:
    trace = Trace()
    trace.host("Optimizer.step#LBFGS.step", 0, 500, category="user_annotation")
    trace.host("layer:Net:a", 10, 100)
    trace.forward("aten::linear", 20, 90, 1)
    trace.forward("aten::mse_loss", 110, 150, 2)
    trace.host("trainload.backward", 160, 300)
    trace.node("MseLossBackward0", 170, 200, 2)
    trace.node("AddmmBackward0", 210, 290, 1)
    trace.host("aten::add_", 310, 400)
    host = follow(trace)
    assert owner_at(host, 50) == (layer("a", "forward"), Mode.OPERATION)
    assert owner_at(host, 120) == (Owner("loss", None, None, "forward"), Mode.OPERATION)
    assert owner_at(host, 250) == (layer("a", "backward"), Mode.OPERATION)
    assert owner_at(host, 350) == (Owner("layer", None, None, "update"), Mode.OPERATION)


def test_a_node_without_its_forward_counts_to_the_node_before_and_is_told() -> None:
    trace = Trace()
    trace.host("layer:Net:a", 0, 100)
    trace.forward("aten::linear", 10, 90, 1)
    trace.node("AddmmBackward0", 200, 250, 1)
    trace.node("FromAnotherWindow", 260, 300, 999)
    host = follow(trace)
    assert owner_at(host, 270) == (layer("a", "backward"), Mode.OPERATION)
    assert host.unknown_nodes == 1


def test_the_wait_for_autograds_thread_belongs_to_its_first_node() -> None:
    trace = Trace()
    trace.mark(0, 0)
    trace.host("layer:Net:a", 10, 100)
    trace.forward("aten::linear", 20, 90, 1)
    trace.node("AddmmBackward0", 200, 250, 1, AUTOGRAD)
    trace.mark(1, 300)
    host = follow(trace)
    assert host.main == 0
    assert owner_at(host, 150) == (layer("a", "backward"), Mode.RANGE)
    assert owner_at(host, 220) is None
    assert owner_at(host, 260) is None


def test_layers_come_from_the_best_source() -> None:
    trace = Trace()
    trace.host("aten::linear", 30, 40)
    trace.host("aten::addmm", 31, 39)
    host = follow(trace)
    assert owner_at(host, 35) == (
        Owner("layer", "model", "aten::linear", "forward"),
        Mode.OPERATION,
    )
    trace.host("encoder", 20, 50, category="user_annotation")
    assert list(follow(trace).layers) == [("model", "encoder")]
    trace.host("nn.Module: Net_0", 10, 60, category="python_function")
    trace.host("nn.Module: Linear_0", 15, 55, category="python_function")
    assert list(follow(trace).layers) == [("Net_0", ""), ("Net_0", "Linear_0")]
    trace.host("layer:x.y", 25, 45, MAIN)
    assert list(follow(trace).layers) == [("model", "x.y")]


def test_a_short_way_into_a_call_is_that_call_s_and_a_long_one_nobody_s() -> None:
    trace = Trace()
    trace.host("layer:Net:", 0, 100)
    trace.forward("aten::linear", 10, 90, 1)
    trace.host("Optimizer.step#SGD.step", 130, 200)
    trace.host("layer:Net:", 251, 300)
    trace.host("enumerate(DataLoader)#_Iter.__next__", 310, 400)
    host = follow(trace, way_in_ns=50)
    assert owner_at(host, 115) == (Owner("layer", None, None, "update"), Mode.RANGE)
    assert owner_at(host, 225) is None
    # Python before the loader is asked is no waiting for it.
    assert owner_at(host, 305) is None
    assert owner_at(follow(trace), 115) is None
