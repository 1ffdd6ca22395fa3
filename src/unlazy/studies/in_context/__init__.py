"""In-context learning: what a pretrained attention layer learns of its tasks, and what it then does with a prompt."""
