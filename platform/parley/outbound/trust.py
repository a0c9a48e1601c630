"""Which authorities outgoing calls trust: the system's, or those of SSL_CERT_FILE or SSL_CERT_DIR in their place."""

import os
import ssl
from functools import cache

import httpcore2

from parley.outbound.errors import Untrusted

env = os.environ


@cache
def trusted() -> ssl.SSLContext:
    """The TLS context of all outgoing calls. Raises Untrusted if SSL_CERT_FILE cannot be read."""
    try:
        context = httpcore2.default_ssl_context()
    except OSError as error:  # includes SSLError
        named = chosen_authorities()
        raise Untrusted(f"SSL_CERT_FILE names {named}, from which no certificate can be read: {error}.") from error
    # Python is stricter with files that the environment names than with the system's. Authorities count the same.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def chosen_authorities() -> str:
    """The file or folder in place of the system's authorities; "" if the environment names none."""
    return env.get("SSL_CERT_FILE") or env.get("SSL_CERT_DIR") or ""
