"""Cold storage: one compressed file holds the log and the rows of an old session. Restoring it changes nothing."""
