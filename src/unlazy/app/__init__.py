"""The explorer: one study at a time in the browser."""
