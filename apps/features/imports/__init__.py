"""Conversations of other programs as sessions: files are read whole, each conversation is recorded at once."""
