"""Lazy training, and feature learning by one large gradient step."""
