"""Forks of sessions, made by forking, editing and retrying; their tree and branch points."""
