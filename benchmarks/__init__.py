"""Side-by-side measurements of speed and memory: `python -m benchmarks [NAME]...` from the root of the repository."""
