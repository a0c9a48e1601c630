"""Who takes a turn in the place of an agent that cannot be reached."""


class Unavailable(Exception):
    """The agent cannot be reached, and nothing was sent. `str()` is a sentence for people, `code` for programs."""

    code = "unavailable"
