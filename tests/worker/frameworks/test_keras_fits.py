"""Steps from Keras' hooks, told by hand: order, own losses, rows, several fits, what fails."""

import json
from types import SimpleNamespace

import pytest

from trainload_worker.frameworks.tensorflow.fits import KerasFits
from trainload_worker.process.events import EventWriter


class Model:
    """As much of a Keras model as is looked at; `seen` are the rows of the epoch so far."""

    def __init__(self):
        self.seen = 0
        counter = SimpleNamespace(numpy=lambda: self.seen)
        self.metrics = [SimpleNamespace(name="loss", count=counter)]

    def train_step(self, data):
        """Keras' own, by its module."""


Model.train_step.__module__ = "keras.src.trainer"


class Own(Model):
    def train_step(self, data):
        """The program's own."""


@pytest.fixture
def told(tmp_path):
    path = tmp_path / "events.jsonl"
    events = EventWriter(str(path))
    fits = KerasFits(events)

    def read(kind):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return [line for line in lines if line["kind"] == kind]

    yield fits, read
    events.close()


def train_epoch(fits, model, epoch, sizes, losses, *, validate=False, order=None):
    """One epoch as Keras tells it: means so far, and the end of batches in whatever order."""
    fits.begin_epoch(epoch)
    model.seen, total, ends = 0, 0.0, []
    for batch, (size, loss) in enumerate(zip(sizes, losses, strict=True)):
        fits.begin_batch()
        model.seen += size
        total += size * loss
        ends.append((batch, {"loss": total / model.seen}))
    for batch in order or range(len(ends)):
        fits.end_batch(*ends[batch])
    logs = dict(ends[-1][1])
    if validate:
        fits.begin_validation()
        model.seen = 7
        fits.end_validation()
        logs.update(val_loss=0.25, val_sparse_categorical_accuracy=0.75)
    fits.end_epoch(logs)


def test_a_step_has_its_own_loss_and_rows_also_the_last_and_smaller_one(told):
    fits, read = told
    model, losses = Model(), [3.0, 1.0, 2.0, 8.0]
    fits.begin_fit(model)
    train_epoch(fits, model, 0, [10, 10, 10, 5], losses, validate=True, order=[1, 0, 3, 2])
    (steps,) = read("steps")
    assert steps["loss"] == pytest.approx(losses) and steps["examples"] == [10, 10, 10, 5]
    assert steps["end_s"] == sorted(steps["end_s"])
    (epoch,) = read("epoch")
    assert epoch["steps"] == 4 and epoch["validation"] == {"loss": 0.25, "accuracy": 0.75}
    assert epoch["train_loss"] == pytest.approx((30 + 10 + 20 + 40) / 35)


def test_steps_and_epochs_go_on_from_fit_to_fit(told):
    fits, read = told
    model = Model()
    for _ in range(2):
        fits.begin_fit(model)
        train_epoch(fits, model, 0, [4, 4], [1.0, 2.0])
    assert [line["first_step"] for line in read("steps")] == [0, 2]
    assert [line["epoch"] for line in read("epoch")] == [0, 1]


def test_an_epoch_of_one_batch_and_one_that_is_broken_off(told):
    fits, read = told
    model = Model()
    fits.begin_fit(model)
    train_epoch(fits, model, 0, [6], [2.0])
    fits.begin_epoch(1)
    fits.begin_batch()
    fits.end_batch(0, {"loss": 5.0})
    fits.finish()
    one, broken = read("steps")
    assert one["examples"] == [6] and broken["loss"] == [5.0] and broken["examples"] == [None]
    assert len(read("epoch")) == 1


def test_an_own_train_step_is_taken_at_its_word(told):
    fits, read = told
    model = Own()
    for _ in range(2):
        fits.begin_fit(model)
    fits.begin_epoch(0)
    for batch, loss in enumerate([3.0, 1.0]):
        fits.begin_batch()
        fits.end_batch(batch, {"loss": loss})
    fits.end_epoch({"loss": 1.0})
    (steps,) = read("steps")
    assert steps["loss"] == [3.0, 1.0] and steps["examples"] == [None, None]
    assert len(read("probe_note")) == 1


def test_an_error_inside_ends_the_probe_and_nothing_else(told):
    fits, read = told
    model = Model()
    model.metrics = [SimpleNamespace(name="loss", count=None)]
    fits.begin_fit(model)
    fits.begin_epoch(0)
    fits.begin_batch()
    fits.begin_batch()
    fits.end_batch(0, {"loss": 1.0})
    fits.end_epoch({})
    (failure,) = read("probe")
    assert "AttributeError" in failure["reason"] and read("steps") == []
