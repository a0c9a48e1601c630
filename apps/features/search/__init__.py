"""Full text of conversations: what was said, what was delivered, and what conversations are called.

`queries` searches; `indexing` brings the index up to date with the record, from behind, and follows deletion.
"""
