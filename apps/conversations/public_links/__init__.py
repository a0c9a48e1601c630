"""Read-only links to sessions for everybody who has one, transcripts, ZIPs of files, and who is present in a session.

Who sees a session that its workspace shares: `record.reading.visibility`.
"""
