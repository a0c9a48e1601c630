"""Agents without code: a language model takes their turns."""
