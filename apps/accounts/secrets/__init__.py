"""Secrets at rest and on the way: encryption, the form of API keys, and signatures."""
