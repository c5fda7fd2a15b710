"""Runs small graphs in one framework, in that framework's own interpreter; no test by itself.

Reads a JSON document on standard input: the worker's folder, the file for the results, and cases
with a worker's specification, a number of rows and a number of steps. Saves the logits before the
first step, the losses of the steps and the logits after them as NumPy arrays.
"""

import importlib.util
import json
import sys
from array import array
from dataclasses import replace


def load_worker(folder):
    path = folder + "/trainload_worker"
    spec = importlib.util.spec_from_file_location(
        "trainload_worker", path + "/__init__.py", submodule_search_locations=[path]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["trainload_worker"] = module
    spec.loader.exec_module(module)


def strengthen(gain):
    """Multiplies the weights of layers, so that what a deep network says depends on its input.

    With torch's default scheme each layer weakens its signal, and the last bias is all that is
    left. Must be called before a backend is imported.
    """
    from trainload_worker import initial_weights

    draw = initial_weights.draw_parameters

    def draw_stronger(graph, seed):
        for name, values in draw(graph, seed):
            yield name, values * values.dtype.type(gain) if values.ndim > 1 else values

    initial_weights.draw_parameters = draw_stronger


def make_rows(spec, count):
    import numpy

    from trainload_worker.data import Dataset
    from trainload_worker.split import Split

    chance = numpy.random.RandomState(7)
    shapes = {layer.name: layer.output_shape for layer in spec.graph.layers}
    entry = next(layer for layer in spec.graph.layers if layer.kind == "input")
    width = int(numpy.prod(entry.output_shape))
    tokens = entry.attributes.get("dtype") == "int64"
    stream = len(shapes[spec.graph.output]) == 2
    if tokens:
        embedding = next(layer for layer in spec.graph.layers if layer.kind == "embedding")
        values = chance.randint(0, embedding.attributes["vocabulary"], count * width + stream)
    else:
        values = chance.standard_normal(count * width).astype("float32")
    features = array("q" if tokens else "f")
    features.frombytes(values.tobytes())
    classes = shapes[spec.graph.output][-1]
    labels = array("q", chance.randint(0, classes, count).tolist())
    dataset = Dataset(
        features=features,
        labels=array("q") if stream else labels,
        groups=array("q", range(count)),
        feature_count=width,
        classes=() if stream else tuple(str(i) for i in range(classes)),
        form="int64" if tokens else "float32",
        vocabulary=classes if stream else None,
    )
    rows = array("q", range(count))
    inputs = values[: count * width].reshape(count, *entry.output_shape)
    return dataset, Split(rows, rows, count, count), inputs


def run_torch(spec, dataset, split, values):
    import torch

    from trainload_worker.backend_torch import create

    backend = create(spec)
    backend.open()
    layers = backend.build(dataset, split)
    model = backend._model

    def forward():
        model.eval()
        with torch.no_grad():
            result = model(torch.from_numpy(values)).numpy()
        model.train()
        return result

    return backend, layers, forward


def run_other(spec, dataset, split, values):
    from trainload_worker.backends import create_backend

    backend = create_backend(spec)
    backend.open()
    layers = backend.build(dataset, split)
    return backend, layers, lambda: backend.forward(values)


def main():
    document = json.load(sys.stdin)
    load_worker(document["worker"])
    strengthen(document.get("gain", 1.0))
    import numpy

    from trainload_worker.spec import parse_spec

    results = {}
    for name, case in document["cases"].items():
        spec = parse_spec(json.dumps(case["spec"]))
        count, steps = case["rows"], case["steps"]
        training = replace(spec.training, batch_size=count, max_steps=steps)
        spec = replace(spec, framework=document["framework"], training=training)
        dataset, split, values = make_rows(spec, count)
        run = run_torch if spec.framework == "torch" else run_other
        backend, layers, forward = run(spec, dataset, split, values)
        results[f"{name}/parameters"] = numpy.array([x.parameter_count for x in layers])
        results[f"{name}/before"] = forward()
        for _ in range(steps):
            backend.run_step(array("q", range(count)))
        results[f"{name}/loss"] = numpy.array(backend.collect(drain=True).loss)
        results[f"{name}/after"] = forward()
    numpy.savez(document["out"], **results)


if __name__ == "__main__":
    main()
