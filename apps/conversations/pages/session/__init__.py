"""The page of a session: what it shows, follows and sends."""
