"""Energy and data movement of a layer graph on a spatial accelerator, by dataflow; pure.

Follows the analysis of Chen, Emer and Sze (ISCA 2016): accesses of each level of storage, weighted
by what one costs over a multiply-add, under the best mapping that fits. Knows no real device.
"""
