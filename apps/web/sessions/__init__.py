"""The pages of a session."""
