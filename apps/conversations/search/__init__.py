"""Full-text search in messages, delivered artifacts and titles of sessions."""
