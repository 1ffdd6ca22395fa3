"""One figure style."""
