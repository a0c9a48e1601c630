"""Broken configurations: how far Parley comes with each, and a word that the first line must have."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

SAFE = {
    "DATABASE_URL": "postgres://parley@127.0.0.1:1/parley",
    "CELERY_BROKER_URL": "redis://127.0.0.1:1",
    "CHANNEL_LAYER_URL": "redis://127.0.0.1:1",
    "SECRET_KEY": "0123456789abcdefghij" * 3,
    "MASTER_KEY": "YSBrZXkgZm9yIHRlc3RzIGFsb25lLCAzMiBieXRlcyE",
    "PUBLIC_BASE_URL": "https://parley.example.org",
    "FORWARDED_ALLOW_IPS": "10.0.0.0/8",
}
NOTHING: dict[str, str | None] = dict.fromkeys(SAFE)
KEYS: dict[str, str | None] = dict.fromkeys(("SECRET_KEY", "MASTER_KEY"))


class Ends(StrEnum):
    """What a broken configuration ends."""

    READING = "everything, while settings are read"
    SETUP = "everything, while apps get ready"
    SERVERS = "web, worker, beat and prepare; the doctor finds it"
    NOTHING = "prepare; web, worker and beat say it and wait, and the doctor finds it"


@dataclass(frozen=True)
class Broken:
    """Settings that differ from SAFE (None: not set), or a file `.env`; and the doctor's check that finds it."""

    name: str
    word: str
    settings: Mapping[str, str | None] = field(default_factory=dict)
    file: Callable[[Path], object] | None = None
    ends: Ends = Ends.READING
    check: str = ""


def written(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


def refusing_database() -> str:
    """Of a server that is there."""
    return urlsplit(os.environ.get("DATABASE_URL", SAFE["DATABASE_URL"]))._replace(path="/parley_nowhere").geturl()


REFUSED = Broken("database-refuses", "refuses", {"DATABASE_URL": refusing_database()}, None, Ends.SERVERS, "database")
BROKEN = (
    Broken("file-unreadable", ".env", NOTHING, Path.mkdir),
    Broken("file-gone", ".env", NOTHING, lambda path: path.symlink_to("gone")),
    Broken("file-not-utf8", ".env", NOTHING, written("SECRET_KEY=ä".encode("latin-1"))),
    Broken("line-without-equals", "line 2", NOTHING, written(b"# Ours\nDATABASE_URL: postgres://db/parley\n")),
    Broken("line-with-blanks", "line 1", NOTHING, written(b"DATABASE_URL = postgres://db/parley\n")),
    Broken("quote-open", "line 1", NOTHING, written(b'DATABASE_URL="postgres://db/parley\n')),
    Broken("settings-module-missing", "nowhere.settings", {"DJANGO_SETTINGS_MODULE": "nowhere.settings"}),
    Broken("broker-without-database", "CELERY_BROKER_URL", {**KEYS, "DATABASE_URL": None, "CHANNEL_LAYER_URL": None}),
    Broken("redis-without-database", "CHANNEL_LAYER_URL", {**KEYS, "DATABASE_URL": None, "CELERY_BROKER_URL": None}),
    Broken("database-empty", "DATABASE_URL", {**NOTHING, "DATABASE_URL": ""}),
    Broken("database-of-others", "DATABASE_URL", {"DATABASE_URL": "mysql://db/parley"}),
    Broken("database-unquoted", "DATABASE_URL", {"DATABASE_URL": "postgres://parley:pass/word@db/parley"}),
    Broken("database-without-name", "DATABASE_URL", {"DATABASE_URL": "postgres://parley@db"}),
    Broken("folder-not-writable", "DATA_DIR", {"DATA_DIR": f"{__file__}/data"}),
    Broken("no-secret-key", "SECRET_KEY", {"SECRET_KEY": None}),
    Broken("no-master-key", "MASTER_KEY", {"MASTER_KEY": None}),
    Broken("broker-of-others", "CELERY_BROKER_URL", {"CELERY_BROKER_URL": "localhost:5672"}),
    Broken("channel-layer-of-others", "CHANNEL_LAYER_URL", {"CHANNEL_LAYER_URL": "amqp://localhost"}),
    Broken("no-number", "PORT", {"PORT": "http"}),
    Broken("no-yes-or-no", "MFA_FOR_OPERATORS", {"MFA_FOR_OPERATORS": "ture"}),
    Broken("no-address", "PUBLIC_BASE_URL", {"PUBLIC_BASE_URL": "parley.example.org"}),
    Broken("unknown-level", "LOG_LEVEL", {"LOG_LEVEL": "LOUD"}),
    Broken("unknown-app", "PARLEY_APPS", {"PARLEY_APPS": "mpc"}),
    Broken("no-network", "METRICS_ALLOW", {"METRICS_ALLOW": "10.0.0.0/99"}),
    Broken("mail-of-others", "EMAIL_URL", {"EMAIL_URL": "mail.example.org"}),
    Broken("master-key-malformed", "MASTER_KEY", {"MASTER_KEY": "short"}, None, Ends.SETUP),
    Broken("no-network-allowed", "OUTBOUND_ALLOW", {"OUTBOUND_ALLOW": "10.0.0.0/99"}, None, Ends.SETUP),
    Broken("secret-key-short", "SECRET_KEY", {"SECRET_KEY": "changeme"}, None, Ends.SERVERS, "SECRET_KEY"),
    Broken("secret-key-plain", "SECRET_KEY", {"SECRET_KEY": "x" * 60}, None, Ends.SERVERS, "SECRET_KEY"),
    Broken("debug", "DEBUG", {"DEBUG": "true"}, None, Ends.SERVERS, "DEBUG"),
    Broken("every-host", "ALLOWED_HOSTS", {"ALLOWED_HOSTS": "parley.lan,*"}, None, Ends.SERVERS, "allowed hosts"),
    Broken(
        "plain-http", "PUBLIC_BASE_URL", {"PUBLIC_BASE_URL": "http://parley.lan"}, None, Ends.SERVERS, "public address"
    ),
    Broken("every-proxy", "FORWARDED_ALLOW_IPS", {"FORWARDED_ALLOW_IPS": "*"}, None, Ends.SERVERS, "proxies"),
    Broken(
        "database-nowhere", "database", {"DATABASE_URL": "sqlite:////no/folder/x"}, None, Ends.SERVERS, "database"
    ),
    Broken("database-silent", "does not answer", {}, None, Ends.NOTHING, "database"),
)  # fmt: skip
