"""The studies: a folder per topic, a file per result."""

LONGEST = {
    "kernel-limit": 101,
    "in-context-transformer": 85,
    "lazy-vs-feature": 77,
    "label-noise-degrees-of-freedom": 58,
    "one-step-risk": 53,
    "sharpness-aware-minimisation": 41,
    "mean-field-attention": 39,
}
"""Seconds of the longest quick presets on one core: `reproduce` starts them first. No result depends on it."""
