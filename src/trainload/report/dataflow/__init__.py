"""Dataflows on a spatial accelerator, as text."""
