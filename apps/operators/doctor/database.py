"""Checks of the database and of what it says: migrations, secrets, clock, processes, queue."""

from __future__ import annotations

import datetime
import time
from importlib.metadata import version
from typing import Any

from django.conf import settings
from django.db import NotSupportedError, connection

from apps.accounts.secrets.encryption import encrypted_fields, unreadable
from apps.engine.activity import oldest_startable
from apps.housekeeping import backups as known_backups
from apps.housekeeping import processes
from apps.housekeeping.models import Backup, PeriodicJob, ServerProcess
from apps.operators.doctor.examination import Finding, Patient, ok, problem, warning
from parley.db import reach, sql, versions
from parley.misconfigured import Misconfigured
from parley.program import DISTRIBUTION

SKEW_SECONDS, BAD_SKEW_SECONDS = 2.0, 15.0
OLD_RUN_SECONDS, STUCK_RUN_SECONDS = 60.0, 600.0
FULL_SHARE = 0.9  # of the server's connections in use
START = "Start one: celery -A parley {}, or where systemd runs Parley: systemctl start {}."
START_EMBEDDED = "Start ./manage.py serve, which has its own."
WORKERS_MISSING = "runbooks/workers-missing.md"
EXPECTED = " If it runs, look at its log and its broker. EXPECTED_WORKERS says how many there should be."


def database(_: Patient) -> Finding:
    try:
        reach.check()
        with connection.cursor() as cursor:
            return _described(cursor)
    except Misconfigured as mistake:
        return problem(mistake.cause, mistake.advice)
    except NotSupportedError as error:
        return problem(str(error), "Upgrade the database server.")


def _described(cursor: Any) -> Finding:
    if connection.vendor == "sqlite":
        cursor.execute("SELECT sqlite_version()")
        return ok(f"SQLite {cursor.fetchone()[0]} at {connection.settings_dict['NAME']}.")
    cursor.execute("SELECT current_setting('server_version'), current_setting('server_encoding')")
    version, encoding = cursor.fetchone()
    if encoding != "UTF8":
        advice = "Make a database with ENCODING 'UTF8' TEMPLATE template0, and restore a dump into it."
        return problem(f"The database is encoded in {encoding}, which cannot hold every text.", advice)
    return ok(f"PostgreSQL {version}, {encoding}.")


def connections_left(_: Patient) -> Finding:
    """Can all processes have the connections that their pools may open?"""
    if connection.vendor != "postgresql":
        return ok("SQLite has no limit of connections.")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,"
            " (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')"
        )
        limit, used = cursor.fetchone()
    pool = settings.DATABASES["default"]["OPTIONS"].get("pool", {}).get("max_size", settings.BRIDGE_THREADS)
    known = len(set(ServerProcess.objects.seen().values_list("host", "pid"))) + 1  # and one web process
    advice = "Raise max_connections of PostgreSQL, or run fewer processes."
    if used >= limit * FULL_SHARE:
        return problem(f"{used} of {limit} connections are in use.", advice)
    if known * pool > limit:
        return warning(f"{known} processes may open {pool} connections each, but the server has {limit}.", advice)
    return ok(f"{used} of {limit} connections are in use; a process opens at most {pool}.")


def migrations(_: Patient) -> Finding:
    if missing := versions.missing(connection):
        text = f"{len(missing)} migrations are missing, first {missing[0]}."
        return problem(text, "Run ./manage.py migrate. Make a backup before an upgrade.")
    return ok("All migrations are applied.")


def stored_secrets(_: Patient) -> Finding:
    counts = [unreadable(field) for field in encrypted_fields()]
    if bad := [count for count in counts if count.unreadable]:
        total, columns = sum(count.unreadable for count in bad), ", ".join(count.column for count in bad)
        advice = "Put the key that they were written with behind the others: MASTER_KEY=NEW,OLD."
        return problem(f"{total} stored secrets cannot be decrypted ({columns}). {bad[0].reason}", advice)
    return ok("MASTER_KEY decrypts the stored secrets.")


def vectors(_: Patient) -> Finding:
    """Can the database keep what EMBEDDING_MODEL says of passages of knowledge?"""
    if not settings.EMBEDDING_MODEL:
        return ok("EMBEDDING_MODEL is not set: words alone are compared.")
    if connection.vendor != "postgresql":
        return ok("SQLite keeps vectors, and compares them one by one.")
    with connection.cursor() as cursor:
        cursor.execute("SELECT installed_version, default_version FROM pg_available_extensions WHERE name = 'vector'")
        installed, offered = cursor.fetchone() or (None, None)
    version = installed or offered or ""
    if tuple(int(number) for number in version.split(".")[:2] if number.isdecimal()) >= (0, 7):
        return ok(f"pgvector {version} keeps vectors.")
    text = f"pgvector {version} is too old." if version else "The database server has no pgvector."
    return warning(f"{text} Knowledge is searched by words alone.", "Install pgvector 0.8 on the database server.")


def database_clock(_: Patient) -> Finding:
    """Leases go by the database's clock, and pages by this machine's."""
    before = time.time()
    there = sql.database_time().timestamp()
    skew = there - (before + time.time()) / 2
    advice = "Let both machines set their clock by NTP (timedatectl set-ntp true)."
    text = f"The database's clock differs by {abs(skew):.1f} s from this machine's."
    if abs(skew) > BAD_SKEW_SECONDS:
        return problem(text, advice)
    return warning(text, advice) if abs(skew) > SKEW_SECONDS else ok(text)


def _start(process: str, unit: str) -> str:
    return START_EMBEDDED if settings.EMBEDDED else START.format(process, unit)


def workers(_: Patient) -> Finding:
    return _seen(ServerProcess.Kind.WORKER, _start("worker", "parley-worker@1") + EXPECTED)


def beat(_: Patient) -> Finding:
    return _seen(ServerProcess.Kind.BEAT, _start("beat", "parley-beat"))


def _seen(kind: ServerProcess.Kind, advice: str) -> Finding:
    seen = list(ServerProcess.objects.seen())
    names = [f"{row.host}:{row.pid}" for row in seen if row.kind == kind]
    if (sentence := processes.missing(seen).get(kind)) is not None:
        if names:
            return warning(f"{sentence} They are {', '.join(names)}.", advice, WORKERS_MISSING)
        return problem(sentence, advice)
    if kind == ServerProcess.Kind.BEAT and len(names) > 1:
        return warning(f"{len(names)} were seen: {', '.join(names)}.", "Run one: each sends every periodic job.")
    return ok(f"{len(names)} seen: {', '.join(names)}.")


def versions_of_processes(_: Patient) -> Finding:
    """Of workers, beats and this process."""
    seen = ServerProcess.objects.seen().values_list("version", flat=True).distinct()
    found = sorted({*seen, version(DISTRIBUTION)})
    if len(found) == 1:
        return ok(f"All processes run Parley {found[0]}.")
    advice = "Restart the processes of the older version, which Housekeeping in admin names."
    return warning(f"Processes of different versions run: {', '.join(found)}.", advice)


def queue(_: Patient) -> Finding:
    """Runs that a pause holds back wait on purpose."""
    oldest = oldest_startable()
    if oldest is None:
        return ok("No run waits for a worker.")
    age = (sql.database_time() - oldest).total_seconds()
    text = f"The oldest queued run waits for {datetime.timedelta(seconds=int(age))}."
    advice = "Start more workers, or look in admin under Runs what the running ones do."
    if age > STUCK_RUN_SECONDS:
        return problem(text, advice)
    return warning(text, advice) if age > OLD_RUN_SECONDS else ok(text)


def periodic_jobs(_: Patient) -> Finding:
    failed = list(PeriodicJob.objects.filter(has_failed=True))
    if failed:
        text = f"The last run failed of {', '.join(job.name for job in failed)}. {failed[0].problem[:200]}"
        return warning(text, "See Housekeeping in admin, and the workers' log.")
    return ok("None failed the last time.")


def backups(_: Patient) -> Finding:
    """Those that the command `backup` makes."""
    last, attempt = known_backups.last_backup(), known_backups.last_attempt()
    advice = "Look into the log of what makes backups, such as journalctl -u parley-backup, and make one by hand."
    if attempt is not None and attempt.state == Backup.State.FAILED:
        return problem(f"The last backup failed on {attempt.started_at:%F %H:%M} UTC. {attempt.problem[:200]}", advice)
    if last is None:
        return warning("None was made here.", "Let ./manage.py backup FOLDER --every 24h run, or make them otherwise.")
    text = f"The last backup is of {last.started_at:%F %H:%M} UTC: {last.name} in {last.place}, {last.bytes:,} bytes."
    return problem(text, advice) if known_backups.is_old(last, sql.database_time()) else ok(text)
