"""Authentication to remote agents."""
