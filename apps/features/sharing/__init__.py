"""Read-only links to sessions, transcripts, and ZIPs of files."""
