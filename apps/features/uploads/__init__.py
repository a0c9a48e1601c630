"""Large files come in pieces, may be cut off at any byte, and go on from there; messages then name them.

`opening` takes and gives up uploads, `pieces` writes what comes to a file, `completing` makes stored content of a whole
one, and `completing.part_of` is what a message says of it. `forgetting` follows the deletion of sessions.
"""
