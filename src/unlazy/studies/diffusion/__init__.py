"""Diffusion models: what a score costs, what its discretisation costs, and how fast a density is learned from it."""
