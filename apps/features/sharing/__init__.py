"""Sessions for others: read-only links, transcripts and bundles of files."""
