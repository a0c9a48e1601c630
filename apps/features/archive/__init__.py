"""Cold storage: the log and the rows of an old session in one compressed file, and back, unchanged.

`sections` knows which rows are a session's, `files` how they are written down (docs/archives.md), `archiving` how they
leave the tables, `restoring` how they come back, `due` which are archived regularly. `record.cold` asks for them.
"""
