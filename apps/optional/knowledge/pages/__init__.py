"""People's pages of knowledge."""
