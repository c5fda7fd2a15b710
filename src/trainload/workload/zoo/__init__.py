"""The zoo: published networks and parametric families as layer graphs, one file each.

Each file has the options a network takes and the function that writes its graph; the registry of
names is `trainload.workload.zoo.models`.
"""
