"""Other people's A2A software and Parley, tried together: `python -m interoperability`.

`packages.py` declares each package with its pinned version, `programs/` has a short client and server for each, as its
documentation shows. The results are docs/reference/interoperability.md.
"""
