"""Kernel matrices, kernel regression and random features in polynomial scaling."""
