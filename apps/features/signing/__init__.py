"""Signed artifacts: made, and verified."""
