"""Why the database cannot be used: it does not answer, or it refuses Parley."""

from __future__ import annotations

import os
import re
from typing import Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, DatabaseError
from django.db.utils import ConnectionHandler

from parley.misconfigured import Misconfigured

CONNECT_SECONDS = 5
FULL = re.compile("too many (clients|connections)|connection slots", re.IGNORECASE)  # libpq gives no code


def check() -> None:
    """Connect once, without the pool: its error says why, at once.

    Raises Misconfigured, with the code EX_UNAVAILABLE where waiting helps: the server does not answer, starts or is
    full.
    """
    chosen = {**settings.DATABASES[DEFAULT_DB_ALIAS]}
    chosen["OPTIONS"] = {name: value for name, value in chosen["OPTIONS"].items() if name != "pool"}
    if not settings.EMBEDDED:
        chosen["OPTIONS"]["connect_timeout"] = CONNECT_SECONDS
    database = ConnectionHandler({DEFAULT_DB_ALIAS: chosen})[DEFAULT_DB_ALIAS]
    try:
        with database.wrap_database_errors:
            database.get_new_connection(database.get_connection_params()).close()
    except DatabaseError as error:
        raise _explained(str(error).partition("\n")[0], chosen) from error


def _explained(said: str, chosen: dict[str, Any]) -> Misconfigured:
    if settings.EMBEDDED:
        advice = "Let the user that Parley runs as write the file and its folder, or correct DATABASE_URL."
        return Misconfigured(f"The database {chosen['NAME']} cannot be used ({said}).", advice)
    if FULL.search(said):
        advice = "Let the server take more connections (max_connections), or let fewer processes run."
        return Misconfigured(f"The database is full ({said}).", advice, code=os.EX_UNAVAILABLE)
    if _is_up(chosen):
        advice = "Correct the name, the user or the password in DATABASE_URL, or make them on the server."
        return Misconfigured(f"The database refuses Parley ({said}).", advice)
    advice = "Start the database server, or correct host and port in DATABASE_URL."
    return Misconfigured(f"The database does not answer ({said}).", advice, code=os.EX_UNAVAILABLE)


def _is_up(chosen: dict[str, Any]) -> bool:
    """Does the server let anybody in?"""
    from psycopg.conninfo import make_conninfo
    from psycopg.pq import PGconn, Ping

    named = {"host": chosen["HOST"], "port": chosen["PORT"], "dbname": chosen["NAME"], "user": chosen["USER"]}
    place = make_conninfo(connect_timeout=CONNECT_SECONDS, **{name: value for name, value in named.items() if value})
    return PGconn.ping(place.encode()) == Ping.OK
