"""Doors for other people's programs; the only room that loads the worker's half in place."""
