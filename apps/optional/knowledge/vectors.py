"""Vectors of passages: where they are kept, and which are the nearest."""

from __future__ import annotations


def are_possible() -> bool:
    """Is there a model for embeddings, and a place for what it gives?"""
    return False
