"""Frameworks' environments: which interpreters, what is in them, how they are made."""
