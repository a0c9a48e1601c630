"""The record: one append-only log for each context, and the rows derived from it.

`ledger` writes, `projection` says what each event does to the rows, `feed` and `sync` let readers follow, and `wire`
makes A2A's JSON. Locks are taken in the order context, task, run.
"""
