"""Runs small graphs in one framework, in that framework's own interpreter; no test by itself.

Reads a JSON document on standard input: the worker's folder, the file for the results, and cases
with a worker's specification, a number of rows and a number of steps. Saves the logits before the
first step, the losses of the steps and the logits after them as NumPy arrays. Of a case without
rows the parameters are counted and nothing is computed.
"""

import importlib.util
import json
import math
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


def make_rows(spec, count):
    import numpy

    from trainload_worker.data.dataset import Dataset
    from trainload_worker.data.split import Split

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

    from trainload_worker.frameworks.torch.backend import create

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
    from trainload_worker.frameworks.backends import create_backend

    backend = create_backend(spec)
    backend.open()
    layers = backend.build(dataset, split)
    return backend, layers, lambda: backend.forward(values)


def zeros(graph):
    """All parameters as views of a single zero: counting needs no memory of its own."""
    import numpy

    from trainload_worker.training.initial_weights import parameter_shapes

    zero = numpy.zeros((), numpy.float32)
    for layer, parameters in parameter_shapes(graph).items():
        for name, shape in parameters.items():
            yield f"{layer}.{name}", numpy.broadcast_to(zero, shape)


def count_torch(graph):
    import torch

    from trainload_worker.frameworks.torch.graph import GraphModule

    with torch.device("meta"):
        module = GraphModule(graph)
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


def count_tensorflow(graph):
    from trainload_worker.frameworks.tensorflow.graph import GraphModel

    model = GraphModel(graph, zeros(graph))
    layers = model.named.values()
    return sum(math.prod(v.shape) for layer in layers for v in layer.trainable_variables)


def count_jax(graph):
    import jax
    from flax import nnx

    from trainload_worker.frameworks.jax.graph import GraphModule

    model = nnx.eval_shape(lambda: GraphModule(graph, zeros(graph)))
    return sum(leaf.size for leaf in jax.tree.leaves(nnx.state(model, nnx.Param)))


def count_mxnet(graph):
    from trainload_worker.frameworks.mxnet.graph import GraphBlock

    parameters = GraphBlock(graph).collect_params().values()
    return sum(math.prod(p.shape) for p in parameters if p.grad_req != "null")


COUNTS = {
    "torch": count_torch,
    "tensorflow": count_tensorflow,
    "jax": count_jax,
    "mxnet": count_mxnet,
}


def main():
    document = json.load(sys.stdin)
    load_worker(document["worker"])
    import numpy

    from trainload_worker.protocol.spec import parse_spec

    results = {}
    for name, case in document["cases"].items():
        spec = parse_spec(json.dumps(case["spec"]))
        count, steps = case["rows"], case["steps"]
        if not count:
            results[f"{name}/parameters"] = numpy.array(COUNTS[document["framework"]](spec.graph))
            continue
        training = replace(spec.training, batch_size=count, max_steps=steps)
        spec = replace(spec, framework=document["framework"], training=training)
        dataset, split, values = make_rows(spec, count)
        if not steps:
            # Nothing is trained on: no framework compiles a step that nobody takes.
            split = replace(split, train_rows=array("q"))
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
