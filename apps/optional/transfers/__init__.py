"""A person's data in and out: conversations of other programs become sessions, and an account one archive."""
