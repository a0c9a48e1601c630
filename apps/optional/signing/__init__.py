"""Signed artifacts."""
