"""torch: layer graphs, and the watching of programs that were written without us.

Its own files: `clock` times CUDA steps, `leader` finds the optimizer that ends a program's steps,
`optimizer_steps` tells of every optimizer's step, `rests` when short ones are let pass,
`modules` names modules, by `parents` where they are parts of others, `compiled` the kernels of
compiled ones, `compiler` keeps the compiler off our functions, `compilations` tells when it was at
work, `ranks` trains one model in several processes, `tally` counts what an evaluation found,
`weights` loads the initial weights, `steps_of_build` runs a user's model, `libraries` measures what
torch takes by being used. Of a script's steps `calls` sees the models called, `backward` the
backward passes, `content` counts examples, tokens and loss from both, `script_phases` tells
validation and checkpoints apart, and `watcher` puts them together.
"""
