"""How fast Parley is: what each operation costs on a running server, measured from outside (`make bench`).

docs/benchmarks.md says how to run them and what each figure means.
"""
