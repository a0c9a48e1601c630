"""Secrets that people give to agents: asked for by a one-time link, and lent to runs."""
