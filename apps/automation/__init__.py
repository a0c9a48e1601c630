"""Work that starts by itself.

`targets` starts an agent or a plan for its owner. `schedules` decides when, and `incoming` makes messages of webhooks.
`reruns` has a session's messages answered by another agent or version.
"""
