"""Attacks that platforms like this one have had, tried at every door."""
