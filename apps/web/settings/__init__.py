"""A person's settings: a page for each section."""
