"""Webhooks (A2A 1.0 §3.1.7 to §3.1.10, §4.3): a task's events, told to whom its owner names.

An event becomes a delivery in the event's own transaction (`outbox`). A queue for each webhook is worked off in order
(`queues`), on one event loop of a worker process, so that a slow receiver holds nobody else up (`courier`).
"""
