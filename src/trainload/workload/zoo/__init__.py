"""The zoo: published networks and parametric families as layer graphs, one file each.

Each file has the options a network takes, the function that writes its graph, and its entries in
`MODELS`; `trainload.workload.zoo.models` lists the files.
"""
