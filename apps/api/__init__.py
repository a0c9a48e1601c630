"""The client API, in which a conversation is called a session.

Each module has endpoints and their `urlpatterns`; `framework` has what they share. `shapes` makes the JSON of many rows
with a fixed number of queries.
"""
