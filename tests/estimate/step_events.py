"""Events of a small made-up step, as an op trace would have them."""

from trainload.estimate.memory.op_trace import Allocation, Free, Mark, Operation, TraceTensor


def operation(name, phase, step, *, layer=None, inputs=(), outputs=()):
    return Operation(
        name=f"aten.{name}.default",
        layer=layer,
        phase=phase,
        step=step,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        attributes=(),
    )


def tensor(storage, *shape):
    return TraceTensor(shape=shape, dtype="float32", strides=None, storage=storage)


def step_events(batch, *, layers=3, width=1 << 16, steps=2):
    """A chain of layers: weights, activations of `batch` rows, gradients, a state of the update."""
    events = [
        Allocation(storage=at, size_bytes=4 * width, category="weight") for at in range(layers)
    ]
    number, gradients = layers, []
    for step in range(steps):
        events.append(Mark(text="step begin", step=step))
        events += [Free(storage=one) for one in gradients]
        kept, gradients = [], []
        for at in range(layers):
            result = tensor(number, batch, width)
            events += [
                operation("relu", "forward", step, layer=f"part{at % 2}.l{at}", outputs=[result]),
                Allocation(storage=number, size_bytes=4 * batch * width, category="activation"),
            ]
            kept.append(number)
            number += 1
        events.append(Mark(text="backward begin", step=step))
        for at in reversed(range(layers)):
            events += [
                operation("mul", "backward", step, layer=f"part{at % 2}.l{at}"),
                Allocation(storage=number, size_bytes=4 * width, category="gradient"),
                Free(storage=kept[at]),
            ]
            gradients.append(number)
            number += 1
        events.append(Mark(text="update begin", step=step))
        if step == 0:
            for _ in range(layers):
                events += [
                    operation("zeros", "update", step),
                    Allocation(storage=number, size_bytes=4 * width, category="optimizer"),
                ]
                number += 1
        events += [operation("add_", "update", step), Mark(text="step end", step=step)]
    return events
