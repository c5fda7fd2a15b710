"""Small graphs whose counts can be worked by hand."""

from trainload.workload import LayerSpec, build_graph


def graph_of(shape, *layers, dtype="float32"):
    """A chain of layers, each given as (kind, attributes)."""
    specs = [LayerSpec(name="x", kind="input", attributes={"shape": shape, "dtype": dtype})]
    for number, (kind, attributes) in enumerate(layers):
        before = (specs[-1].name,)
        specs.append(
            LayerSpec(name=f"{kind}{number}", kind=kind, inputs=before, attributes=attributes)
        )
    return build_graph("by_hand", specs)


def small_perceptron():
    return graph_of([4], ("linear", {"units": 5}), ("relu", {}), ("linear", {"units": 3}))
