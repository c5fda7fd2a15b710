"""The child half of trainload: builds a layer graph in one framework, trains it, tells of it.

It needs the standard library and one framework, runs on Python 3.8 or later and never imports
`trainload`: the two halves meet in the specification on standard input and in `events.jsonl`.
"""
