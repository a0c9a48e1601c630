"""Turns that remote agents take: sent once, followed by whichever worker, and recorded in the record's words."""
