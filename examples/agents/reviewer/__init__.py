"""Side by side: three reviews of the same text at once, then one verdict."""
