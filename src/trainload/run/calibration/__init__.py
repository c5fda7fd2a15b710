"""Calibrating a device: chosen, found quiet, its kernels timed by a worker, its power read beside.

Part of the measuring wing: standard library and psutil, nothing heavier.
"""
