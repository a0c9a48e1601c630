"""Cold storage: the log and the rows of an old session in one compressed file, and back, unchanged.

`file_format` knows which rows are a session's and how they are written down (docs/archives.md), `archiving` which leave
the tables and how, `restoring` how they come back. `record.lookup` asks for them.
"""
