"""Backups of a whole installation, restoring them, and moving to another database."""
