"""The studies: a folder per topic, a file per result."""
