"""What an artifact came of: the tasks, messages, agents, versions and files that led to it.

`traversal.provenance_of` finds it, level by level; `queries` reads the rows of one level, and `graph` is
what comes of it.
"""
