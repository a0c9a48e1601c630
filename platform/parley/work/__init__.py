"""One way to work: rows of the database that a process claims, and lists of them that jobs work off.

A row is a `Work`: one process at a time claims it. A `WorkList` says which rows are due and what is done to one. Broker
messages only name a row; what they lose, the sweep finds in the database. Runs of agents have an engine of their own.
"""

from parley.work.lists import WorkList, connected_producer, send_job, work_lists
from parley.work.models import Retried, RetriedQuerySet, Work, WorkQuerySet, retry_seconds

__all__ = [
    "Retried", "RetriedQuerySet", "Work", "WorkList", "WorkQuerySet", "connected_producer", "retry_seconds",
    "send_job", "work_lists",
]  # fmt: skip
