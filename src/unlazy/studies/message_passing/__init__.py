"""Message passing: exact errors and dynamics of inference in high dimension, on models and on real covariances."""
