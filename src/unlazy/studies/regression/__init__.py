"""Ridge regression in high dimension."""
