"""A2A 1.0 and 0.3, over JSON-RPC and HTTP+JSON.

`bindings` reads requests and writes responses of both bindings; `http` and `authentication` find the caller and the
agent; `operations` carries out each operation. `requests` has the shapes of parameters, `v0_3` translates the old
version, `discovery` serves cards and keys, and `webhooks` delivers push notifications.
"""
