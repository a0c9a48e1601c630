"""Admin pages of people, API keys and credentials."""
