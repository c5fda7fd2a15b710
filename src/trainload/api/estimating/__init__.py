"""Estimates of training steps, asked for in Python; each part traces, tries or measures."""
