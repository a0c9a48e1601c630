"""Federation: installations that trust each other by their identities (DIDs) use each other's agents.

`pairing` makes and takes codes, `tokens` says who calls, `calls` lets them in, `sync` keeps lists and keys fresh.
"""
