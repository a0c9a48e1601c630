"""The cost of each operation on a running server, measured from outside (`make bench`).

See docs/reference/benchmarks.md.
"""
