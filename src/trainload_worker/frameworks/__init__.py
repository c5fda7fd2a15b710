"""One folder a framework, the same file names in each; `create` and the loop know no other names.

    offer           what it can do: OFFER, which imports nothing of the framework
    backend         `create(spec)`: the training of a layer graph
    state           weights and optimizer state for checkpoints, by the names of the graph
    graph, kinds    a layer graph as the framework's model, and each kind of layer
    optimizers      `build_optimizer`, with the same update rules everywhere
    loader          its own input pipeline, where the offer has `native_loader`
    tracer          its profiler around single steps, where the offer has `graph_layers`
    profile         what that profiler wrote, where it takes a file to read it
    probe           steps of a user's program, where the offer has `told_steps` or `scripts`
    layers          layers of a user's script, where the offer has `script_layers`
    fake_step/      operations of a step that is not run, where the offer has `op_trace`
    sweep/          a device's kernels timed, where the offer has `sweep`
    limits/         what trainings and kernels reach here, where the offer has `limits`

A folder may have more files of its own, which its `__init__` names. One that trains nothing has no
graph, kinds or optimizers. `requirements.txt` holds the versions that an environment is made of.
`arrays` and `xla` are no frameworks: they hold what several of them share.
"""
