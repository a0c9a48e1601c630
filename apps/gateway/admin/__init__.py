"""Operators' pages of remote agents."""
