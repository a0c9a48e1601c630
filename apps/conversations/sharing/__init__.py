"""Read-only links to sessions, transcripts, and ZIPs of files.

Who sees a session that its workspace shares: `record.visibility`.
"""
