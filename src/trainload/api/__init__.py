"""The Python surface: what the command line offers, as functions of typed values.

Prints nothing and parses no words; whoever wants to see progress passes a function.
"""
