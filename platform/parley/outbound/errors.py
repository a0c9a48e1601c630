"""Why a call failed. `str()` is a sentence for people that says what to do."""


class OutboundError(Exception):
    """A call to another machine failed.

    Attributes:
        was_sent: was any of the request sent? If so, the other side may have acted on it.
    """

    was_sent = False
    loggable = True  # see `parley.telemetry.logs`


class Forbidden(OutboundError):
    """The address may not be called. Trying again leads to the same."""


class Private(Forbidden):
    """The address is in a private network. Operators can allow it by `entry` (see `Allowed.read`)."""

    def __init__(self, message: str, entry: str = "") -> None:
        super().__init__(message)
        self.entry = entry


class Unreachable(OutboundError):
    """The name cannot be resolved, nobody listens there, or what answers does not speak HTTP or TLS properly."""


class Untrusted(Unreachable):
    """The certificate of what answers is not to be trusted, or is one for another name.

    Attributes:
        code: OpenSSL's reason, X509_V_ERR_*; 0 if the certificate was not checked.
    """

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class Unsendable(Unreachable):
    """The request cannot be sent as it is, such as one with a line break in a header."""


class TooSlow(OutboundError):
    """The answer was not there in time."""


class TooLarge(OutboundError):
    """The answer is larger than what is taken, as it came or unpacked."""

    was_sent = True


class Misleading(OutboundError):
    """The answer sends the caller elsewhere, or is packed in a way that was not asked for."""

    was_sent = True


class Redirected(Misleading):
    """The answer sends the caller elsewhere. Whoever follows calls again, so that the new address is checked.

    Attributes:
        location: where to, as the answer says it.
    """

    def __init__(self, sentence: str, location: str) -> None:
        super().__init__(sentence)
        self.location = location
