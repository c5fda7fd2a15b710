"""A run or a study while it goes on: a screen of the terminal (textual), and a local page.

Draws what it is given and asks through what it is given; reads no file of a run.
"""
