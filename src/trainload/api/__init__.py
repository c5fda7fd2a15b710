"""The Python surface: run, load, load_all, estimate, watch, and the types they answer with.

Puts the rooms together and prints nothing; `import trainload` reaches it when a name is used.
"""
