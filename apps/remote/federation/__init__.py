"""Federation: installations that trust each other by their identities (DIDs) use each other's agents.

`tokens` says who calls, `calls` lets them in. Pairing is an app of its own, `apps.optional.federation`.
"""
