"""TensorFlow with Keras 3. Its own files: `owners` says whose an operation is, `fits` follows
a script's `fit`."""
