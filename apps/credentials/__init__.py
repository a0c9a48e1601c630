"""Secrets that people give to agents by a one-time link, and that runs may use."""
