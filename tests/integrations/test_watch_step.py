"""`trainload.watch_step`: a loop recorded by its step function; torch stands for any framework."""

import pytest

import trainload
from trainload.errors import UsageError
from trainload.integrations.stepping import find_loss

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.framework("torch")


def make_step():
    weights = torch.zeros(4, requires_grad=True)

    def step(rows):
        """Goes down."""
        loss = (rows @ weights - 1).square().mean()
        (slope,) = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            weights.sub_(0.1 * slope)
        return weights, loss.detach()

    return step


def test_each_call_is_a_step_and_the_only_number_its_loss(tmp_path):
    step = make_step()
    watched = trainload.watch_step(step, name="own", out=tmp_path, framework="torch")
    assert watched.__doc__ == "Goes down." and watched.path is None
    losses = [watched(torch.ones(8, 4))[1].item() for _ in range(20)]
    path = watched.path
    watched.close()
    run = trainload.load(path)
    assert run.outcome == "completed" and run.manifest.workload.model == "own"
    # Nothing tells when the first step began: it starts the clock.
    assert run.steps["loss"].to_list() == pytest.approx(losses[1:])
    watched(torch.ones(8, 4))
    assert watched.path != path
    watched.close()


def test_what_cannot_be_recorded_still_runs(tmp_path):
    (tmp_path / "file").write_text("")
    watched = trainload.watch_step(make_step(), out=tmp_path / "file", framework="torch")
    with pytest.warns(UserWarning, match="unmeasured"):
        assert watched(torch.ones(8, 4))[1].item() == 1.0
    assert watched.path is None
    with pytest.raises(UsageError, match="step function"):
        trainload.watch_step(3)
    with pytest.raises(UsageError, match="knows torch, tensorflow, jax"):
        trainload.watch(framework="mxnet")


def test_the_loss_is_found_where_only_one_number_can_be_it():
    number, vector = torch.tensor(2.0), torch.zeros(3)
    assert find_loss(number) is number
    assert find_loss((vector, number)) is number
    assert find_loss({"loss": number, "state": vector}) is number
    assert find_loss((number, torch.tensor(1.0))) is None
    assert find_loss((vector, torch.tensor(1))) is None and find_loss(None) is None
    assert find_loss(0.5) == 0.5
