"""TensorFlow with Keras 3. Its own file: `owners` says whose an operation is."""
