"""What goes wrong with remote agents. Each has a stable code, and `str()` is a sentence for people."""

from __future__ import annotations


class RemoteError(Exception):
    """A remote agent could not be used.

    Attributes:
        code: a stable word for programs.
        is_transient: may the same lead to another end later?
        was_sent: did the agent get the request? None: nobody knows.
    """

    code = "remote_error"
    is_transient = False
    was_sent: bool | None = None


class BadCard(RemoteError):
    """The agent's card is missing, is not one, or names no way to talk to the agent that Parley knows."""

    code = "bad_card"
    was_sent = False
