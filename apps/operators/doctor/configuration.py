"""Checks of settings and of this machine, which call nothing."""

from __future__ import annotations

import errno
import importlib.metadata
import platform
import shutil
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.http.request import validate_host

from apps.installation import safety
from apps.installation.safety import is_local
from apps.operators.doctor.examination import Finding, Patient, ok, problem, warning
from parley import outbound
from parley.misconfigured import Misconfigured
from parley.program import DISTRIBUTION

LOW_DISK_BYTES, FULL_DISK_BYTES = 2 * 1024**3, 200 * 1024**2


def version(_: Patient) -> Finding:
    return ok(f"Parley {importlib.metadata.version(DISTRIBUTION)}, Python {platform.python_version()}.")


def secret_key(_: Patient) -> Finding:
    return _finding(safety.secret_key()) or ok("SECRET_KEY is long enough.")


def debug(_: Patient) -> Finding:
    if found := _finding(safety.debug()):
        return found
    return warning("DEBUG is on.", "Remove it before others can reach it.") if settings.DEBUG else ok("DEBUG is off.")


def proxies(_: Patient) -> Finding:
    if found := _finding(safety.proxies()):
        return found
    if settings.IS_HTTPS and not settings.FORWARDED_ALLOW_IPS:
        advice = "Name the proxy's addresses, also so that pages that come by http are redirected to https."
        return warning("FORWARDED_ALLOW_IPS names no proxy: all callers have the proxy's address.", advice)
    return ok(f"Callers are named by {settings.FORWARDED_ALLOW_IPS or 'nobody else'}.")


def _finding(unsafe: Misconfigured | None) -> Finding | None:
    """Parley does not start with it, so it is a problem."""
    return problem(unsafe.cause, unsafe.advice) if unsafe else None


def hosts(patient: Patient) -> Finding:
    host = urlsplit(patient.url).hostname or ""
    if not validate_host(f"[{host}]" if ":" in host else host, settings.ALLOWED_HOSTS):
        return problem(f"ALLOWED_HOSTS does not accept {host}.", f"Add {host} to ALLOWED_HOSTS.")
    return _finding(safety.allowed_hosts()) or ok(f"ALLOWED_HOSTS accepts {host}.")


def public_address(patient: Patient) -> Finding:
    address = urlsplit(patient.url)
    if address.scheme not in ("http", "https") or not address.hostname or address.path or address.query:
        advice = "Set it to scheme and host, such as https://parley.example.org."
        return problem(f"PUBLIC_BASE_URL is {patient.url or 'empty'}.", advice)
    if found := _finding(safety.public_address()):
        return found
    if address.scheme == "http" and not is_local(patient.url):
        advice = "Put a proxy with TLS in front and set PUBLIC_BASE_URL to https://…: passwords and keys travel open."
        return warning(f"{patient.url} is not encrypted.", advice)
    return ok(f"People and agents come to {patient.url}.")


def profile(_: Patient) -> Finding:
    in_memory = [
        name for name in ("CELERY_BROKER_URL", "CHANNEL_LAYER_URL") if getattr(settings, name).startswith("memory://")
    ]
    if settings.EMBEDDED and len(in_memory) == 2:
        return ok("Embedded: one process with SQLite.")
    if "CELERY_BROKER_URL" in in_memory and not settings.EMBEDDED:
        advice = "Set CELERY_BROKER_URL to amqp://… or redis://…, unless ./manage.py serve is the only process."
        return warning("The broker is in memory, so other processes get no work.", advice)
    if "CHANNEL_LAYER_URL" in in_memory:
        advice = "Set CHANNEL_LAYER_URL to redis://…"
        return warning("The channel layer is in memory: live pages and streams are seconds late.", advice)
    if settings.EMBEDDED:
        return warning("SQLite serves the processes of one machine only.", "Set DATABASE_URL to postgres://…")
    return ok("Services: PostgreSQL, a broker and Redis.")


def data_folder(_: Patient) -> Finding:
    folder = Path(settings.DATA_DIR)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"doctor")
    except OSError as error:
        advice = f"Let the user of Parley's processes write to DATA_DIR ({folder})."
        if error.errno == errno.ENOSPC:
            advice = "Make room on this disk."
        return problem(f"Files cannot be written to {folder}: {error.strerror}.", advice)
    exposed = [path for path in _private_files() if path.stat().st_mode & 0o004 and _others_may_enter(path)]
    if exposed:
        advice = f"Run chmod 600 {exposed[0]}, or chmod 700 {exposed[0].parent}."
        return warning(f"Everybody on this machine can read {', '.join(path.name for path in exposed)}.", advice)
    return ok(f"{folder} is writable, and others cannot read what is secret.")


def _private_files() -> list[Path]:
    folder = Path(settings.DATA_DIR)
    named = [folder / "secret-key", folder / "master-key"]
    if settings.EMBEDDED:
        named.insert(0, Path(settings.DATABASES["default"]["NAME"]))
    return [path for path in named if path.is_file()]


def _others_may_enter(path: Path) -> bool:
    return all(folder.stat().st_mode & 0o001 for folder in path.resolve().parents)


def disk(_: Patient) -> Finding:
    free = shutil.disk_usage(settings.DATA_DIR).free
    text = f"{free / 1024**3:,.1f} GB are free in {settings.DATA_DIR}."
    advice = "Delete what is not needed, archive old sessions (./manage.py archive_sessions), or get more room."
    if free < FULL_DISK_BYTES:
        return problem(text, advice)
    return warning(text, advice) if free < LOW_DISK_BYTES else ok(text)


def static_files(_: Patient) -> Finding:
    manifest = Path(settings.STATIC_ROOT) / "staticfiles.json"
    advice = (
        "Run ./manage.py collectstatic --no-input (./manage.py serve does so itself), and restart the web processes."
    )
    if not manifest.exists():
        return problem(f"Static files are not collected in {settings.STATIC_ROOT}: pages have no style.", advice)
    if _newest_source() > manifest.stat().st_mtime + 1:
        return warning("Static files changed after they were collected.", advice)
    return ok(f"Static files are in {settings.STATIC_ROOT}.")


def authorities(_: Patient) -> Finding:
    """Whom do outgoing calls, and those of the other checks, trust?"""
    try:
        number = outbound.trusted().cert_store_stats()["x509"]
    except outbound.Untrusted as error:
        return problem(str(error), "Let it name a file in PEM that this user can read, or remove it.")
    if named := outbound.chosen_authorities():
        return ok(f"Outgoing calls trust the authorities of {named}{f', {number},' if number else ''} and no others.")
    return ok("Outgoing calls trust this system's authorities.")


def _newest_source() -> float:
    return max(
        (
            Path(storage.path(path)).stat().st_mtime
            for finder in get_finders()
            for path, storage in finder.list(["ext"])
        ),
        default=0.0,
    )
