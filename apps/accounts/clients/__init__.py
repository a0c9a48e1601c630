"""Programs that act for people: OAuth 2.1, clients that register themselves, and what people allowed."""
