"""The embedded backend: a small language model in NumPy, and the Completions API over it."""
