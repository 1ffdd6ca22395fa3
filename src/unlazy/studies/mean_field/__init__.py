"""Mean-field Langevin dynamics: particles that minimise a convex functional of their law plus its entropy."""
