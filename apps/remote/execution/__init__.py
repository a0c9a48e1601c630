"""Turns of remote agents."""
