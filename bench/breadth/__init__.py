"""Models of others and own modules as training steps, one module a library, each with `MODELS`."""
