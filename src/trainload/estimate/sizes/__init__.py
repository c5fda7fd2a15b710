"""Sizes of networks from their layer graphs: parameters, features, FLOPs; pure."""
