"""Index models: labels that see few directions of the input, and how many samples it takes to find them."""
