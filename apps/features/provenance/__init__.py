"""What an artifact came of: the tasks, messages, agents, versions and files that led to it.

`walking.provenance_of` finds it, level by level; `levels` reads the rows of one level, `contents` says what was given,
`origins` where that came from, and `graphs` is what comes of it all.
"""
