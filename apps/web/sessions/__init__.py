"""A session's pages: the conversation, its live line, its files, and what is shared of it."""
