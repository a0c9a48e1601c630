"""Settings from `.env` and the environment: secrets, database, channel layer and broker."""

from __future__ import annotations

import gc
import io
import ipaddress
import os
import re
import secrets
import sys
from contextlib import suppress
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import django
import environ
from django.core.exceptions import ImproperlyConfigured

from parley.misconfigured import MAKE_KEY, Misconfigured, refused

_IN_WHEEL = Path(__file__).resolve().with_name("assets")  # pyproject.toml puts templates and static files there
_CHECKOUT = Path(__file__).resolve().parents[2]
ASSETS = _IN_WHEEL if _IN_WHEEL.is_dir() else _CHECKOUT  # read only
HOME = Path.cwd() if _IN_WHEEL.is_dir() else _CHECKOUT  # of `.env` and of relative paths

# Collecting garbage during imports takes a sixth of the start and finds none. `ParleyConfig.ready` turns it on again.
gc.disable()

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

IN_MEMORY = "memory://"


class Environment(environ.Env):  # type: ignore[misc]
    """Reads settings by their type. Raises Misconfigured for one that has not that type, also for a yes or no."""

    EXPECTED = {
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        dict: "a list of name=value, with commas between",
    }
    BOOLEAN_STRINGS = (*environ.Env.BOOLEAN_TRUE_STRINGS, "false", "off", "n", "no", "0", "")

    def get_value(self, var: str, cast: Any = None, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().get_value(var, cast, *args, **kwargs)
        except ValueError as error:
            raise Misconfigured(f"{var} is not {self.EXPECTED.get(cast, 'readable')}.") from error

    @classmethod
    def parse_value(cls, value: Any, cast: Any) -> Any:
        if cast is bool and isinstance(value, str) and value.lower() not in cls.BOOLEAN_STRINGS:
            raise ValueError  # it would be a no
        return super().parse_value(value, cast)


env = Environment()


def setup() -> None:
    """Read the configuration and set Django up. Its mistakes end the process in two lines. Raises SystemExit."""
    with refused():
        find_settings()
        django.setup()


def find_settings() -> None:
    """Read `.env`, which may name the module of Django's settings, too. Raises Misconfigured."""
    read_file(HOME / ".env")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "parley.settings")


SETTING = re.compile(r"""(export )?\w+=('[^\0]*'|"[^\0]*"|[^'"\0][^\0]*)?""", re.ASCII)


def read_file(path: Path) -> None:
    """Add the settings of a file to the environment, which wins. A file that is not there has none.

    Raises Misconfigured for one that cannot be read: without its settings, Parley would begin another installation.
    """
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except FileNotFoundError:
        if not path.is_symlink():
            return
        cause = f"{path} leads to {path.readlink()}, which is not there."
        raise Misconfigured(cause, "Put the file with the settings there, or remove the link.") from None
    except OSError as error:
        advice = "Let the user that Parley runs as read it, or remove it if there are no settings in it."
        raise Misconfigured(f"{path} cannot be read: {error.strerror}.", advice) from error
    except UnicodeDecodeError as error:
        raise Misconfigured(f"{path} is not a text in UTF-8.", "Save it as UTF-8.") from error
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#") and not SETTING.fullmatch(line):
            advice = "Write NAME=value in one line, with no blank around =, and quotes around the whole value or none."
            raise Misconfigured(f"{path}, line {number}, is no setting.", advice)
    has_import_path = "PYTHONPATH" in env.ENVIRON
    env.read_env(io.StringIO("\n".join(line for line in lines if SETTING.fullmatch(line))))
    if not has_import_path and (named := env.ENVIRON.get("PYTHONPATH")):  # Python itself looked there before
        folders = [str(path.parent / folder) for folder in named.split(os.pathsep) if folder]
        env.ENVIRON["PYTHONPATH"] = os.pathsep.join(folders)  # of other processes
        sys.path[1:1] = folders


def data_dir() -> Path:
    """The folder of all this installation's files (`DATA_DIR`, default `var/`). A new one is for this user alone.

    Raises Misconfigured if this user cannot write there.
    """
    path = Path(HOME / env.str("DATA_DIR", default="var")).resolve()
    advice = (
        "Let the user that Parley runs as write there (systemd: ReadWritePaths=), or set DATA_DIR to another folder."
    )
    try:
        path.mkdir(0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Misconfigured(f"The folder DATA_DIR, {path}, cannot be made: {error.strerror}.", advice) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise Misconfigured(f"The folder DATA_DIR, {path}, is not writable.", advice)
    return path


OPTIONAL = "apps.optional."


def chosen_apps(every: list[str]) -> tuple[list[str], dict[str, str]]:
    """INSTALLED_APPS, with the apps of installed packages, and the optional apps that PARLEY_APPS leaves out, by name.

    PARLEY_APPS has the names of optional apps and of entry points `parley.apps`, separated by commas; by default all.
    Raises ImproperlyConfigured for other names, if two apps have one name, and for an app without the one around it.
    """
    optional = {path.removeprefix(OPTIONAL): path for path in every if path.startswith(OPTIONAL)}
    installed = [(point.name, point.value) for point in entry_points(group="parley.apps")]
    names = [*optional, *(name for name, _ in installed)]
    if double := {name for name in names if names.count(name) > 1}:
        raise ImproperlyConfigured(f"Two installed packages have an app called {', '.join(double)}. Remove one.")
    optional |= installed
    chosen = [name.strip() for name in env.list("PARLEY_APPS", default=names)]
    if unknown := set(chosen) - optional.keys():
        raise ImproperlyConfigured(
            f"PARLEY_APPS names {', '.join(sorted(unknown))}, which is not installed. There are {', '.join(names)}."
        )
    for name in chosen:
        around, _, inner = name.rpartition(".")
        if inner and around in optional and around not in chosen:
            raise ImproperlyConfigured(f"PARLEY_APPS names {name}, which needs {around}. Name it, too.")
    left_out = {name: path for name, path in optional.items() if name not in chosen}
    paths = [*every, *(path for _, path in installed)]
    return [path for path in paths if path not in left_out.values()], left_out


def package_folder(name: str) -> Path:
    """The folder of an installed package, which is not imported."""
    found = find_spec(name)
    if found is None or found.origin is None:
        raise ImproperlyConfigured(f"The package {name} is missing. Install what requirements.lock lists.")
    return Path(found.origin).parent


def keep_private(*paths: Path) -> None:
    """Let only this user read these files; missing ones are left out. What belongs to others is for the doctor."""
    for path in paths:
        with suppress(FileNotFoundError, PermissionError):
            if path.stat().st_mode & 0o077:
                path.chmod(0o600)


def secret(name: str, folder: Path, *, size: int, may_generate: bool) -> str:
    """The secret `name` from the environment, or from `folder`, where the first start generates it (mode 600).

    It has `size` random bytes in URL-safe base64. Raises Misconfigured if it is unset and not `may_generate`.
    """
    if value := str(env.str(name, default="")):
        return value
    if not may_generate:
        raise Misconfigured(f"{name} is not set.", MAKE_KEY.format(size))
    path = folder / name.lower().replace("_", "-")
    try:
        return _kept(path, size)
    except OSError as error:
        advice = f"Let the user that Parley runs as read and write it, or set {name}."
        raise Misconfigured(f"{name} cannot be kept in {path}: {error.strerror}.", advice) from error


def _kept(path: Path, size: int) -> str:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        keep_private(path)
        return path.read_text().strip()
    with os.fdopen(descriptor, "w") as file:
        file.write(value := secrets.token_urlsafe(size))
    return value


def choice(name: str, value: str, *allowed: str) -> str:
    """The value of the setting `name`. Raises ImproperlyConfigured unless it is one of these."""
    if value not in allowed:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(allowed)}.")
    return value


def database_url(folder: Path) -> str:
    """`DATABASE_URL`, by default of a SQLite file in `folder`.

    Raises Misconfigured if it is missing where another setting is of services: an empty database would take its place.
    """
    if url := str(env.str("DATABASE_URL", default="")):
        return url
    urls = {name: str(env.str(name, default=IN_MEMORY)) for name in ("CELERY_BROKER_URL", "CHANNEL_LAYER_URL")}
    services = [name for name, url in urls.items() if not url.startswith(IN_MEMORY)]
    if services or "DATABASE_URL" in env.ENVIRON:
        cause = f"DATABASE_URL is {'empty' if 'DATABASE_URL' in env.ENVIRON else 'not set'}"
        advice = "Set it to postgres://user:password@host:5432/name, or to sqlite:////absolute/path.sqlite3."
        raise Misconfigured(f"{cause}, but {services[0]} is set." if services else f"{cause}.", advice)
    return f"sqlite:///{folder / 'parley.sqlite3'}"


def public_base_url(default: str) -> str:
    """`PUBLIC_BASE_URL` without a slash at its end. Raises Misconfigured for what is no address."""
    url = str(env.str("PUBLIC_BASE_URL", default=default)).rstrip("/")
    with suppress(ValueError):
        if url == default or (urlsplit(url).scheme in ("http", "https") and urlsplit(url).hostname):
            return url
    advice = "Set it to scheme and host, such as https://parley.example.org."
    raise Misconfigured(f"PUBLIC_BASE_URL is {url or 'empty'}, which is no address.", advice)


def database(url: str, *, bridge_threads: int) -> dict[str, Any]:
    """Django's settings for a database URL: SQLite with WAL, or PostgreSQL with a pool. Raises Misconfigured."""
    config = _parsed(url)
    if config["ENGINE"].endswith("sqlite3"):
        config["OPTIONS"] = {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-64000;",
        }
        file = Path(config["NAME"])
        if file.name != ":memory:":
            # SQLite gives its journals the mode of the database file, and a new database begins as an empty file.
            with suppress(OSError):  # that it cannot be made, SQLite says
                os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            keep_private(file, *(file.with_name(f"{file.name}-{journal}") for journal in ("wal", "shm", "journal")))
        # Threads and processes share the test database, so it is a file.
        config["TEST"] = {"NAME": str(file.with_name(f"test-{os.getpid()}.sqlite3"))}
    else:
        # Database threads and plan threads keep a connection each; pages and admin use the rest of the pool.
        config["OPTIONS"] = {
            "server_side_binding": True,  # needed to prepare statements
            "prepare_threshold": 2,
            # Detect dropped connections within a minute.
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            # Short timeouts find a restarted server soon.
            "pool": {
                "min_size": 1,
                "max_size": bridge_threads + 20,
                "max_idle": 10,
                "timeout": 5,
                "reconnect_timeout": 3,
            },
        }
        config["CONN_HEALTH_CHECKS"] = True  # pooled connections are broken after a restart
        config["TEST"] = {"NAME": f"test_parley_{os.getpid()}"}
    return config


def _parsed(url: str) -> dict[str, Any]:
    advice = (
        "Write postgres://user:password@host:5432/name; in the password, %2F stands for /, %40 for @ and %25 for %."
    )
    if not url.startswith(("sqlite://", "postgres://", "postgresql://", "psql://", "pgsql://")):
        raise Misconfigured("DATABASE_URL does not begin with sqlite:// or postgres://.", advice)
    try:
        config: dict[str, Any] = dict(environ.Env.db_url_config(url))
    except ValueError as error:
        raise Misconfigured("DATABASE_URL cannot be read.", advice) from error
    if not config["NAME"]:
        raise Misconfigured("DATABASE_URL names no database.", advice)
    return config


def service_url(name: str, *schemes: str) -> str:
    """The URL of a service by its setting, by default in memory, for one process. Raises Misconfigured."""
    url = str(env.str(name, default=f"{IN_MEMORY}localhost"))
    if not url.startswith((IN_MEMORY, *schemes)):
        raise Misconfigured(f"{name} does not begin with {' or '.join(schemes)}.")
    return url


def mailers(url: str) -> dict[str, Any]:
    """Django's MAILERS for `EMAIL_URL`; without one, the mail server of this machine."""
    if not (url := url or "smtp://localhost:25").startswith(("smtp://", "smtp+tls://", "smtp+ssl://")):
        raise ImproperlyConfigured("EMAIL_URL must begin with smtp://, smtp+tls:// or smtp+ssl://.")
    config = environ.Env.email_url_config(url)
    is_encrypted = bool(config.get("EMAIL_USE_SSL"))
    options = {
        "host": config["EMAIL_HOST"],
        "port": config["EMAIL_PORT"] or (465 if is_encrypted else 587 if config.get("EMAIL_USE_TLS") else 25),
        "username": config["EMAIL_HOST_USER"],
        "password": config["EMAIL_HOST_PASSWORD"],
        "use_tls": bool(config.get("EMAIL_USE_TLS")),
        "use_ssl": is_encrypted,
        "timeout": 10,
    }
    return {"default": {"BACKEND": "django.core.mail.backends.smtp.EmailBackend", "OPTIONS": options}}


def oidc_provider(url: str, name: str, client_id: str, secret: str) -> dict[str, Any]:
    """django-allauth's SOCIALACCOUNT_PROVIDERS for OIDC_URL; {} without one."""
    if not url:
        return {}
    if not url.startswith(("https://", "http://")) or not client_id:
        raise ImproperlyConfigured("OIDC_URL must begin with https://, and OIDC_CLIENT_ID must be set.")
    app = {
        "provider_id": "oidc",
        "name": name,
        "client_id": client_id,
        "secret": secret,
        "settings": {"server_url": url},
    }
    return {"openid_connect": {"APPS": [app], "OAUTH_PKCE_ENABLED": True}}


def metrics_networks() -> list[Network]:
    """METRICS_ALLOW. Raises ImproperlyConfigured."""
    try:
        return [ipaddress.ip_network(text, strict=False) for text in env.list("METRICS_ALLOW", default=[])]
    except ValueError as error:
        raise ImproperlyConfigured(f"METRICS_ALLOW: {error}") from None


def share_metrics() -> None:
    """Make the folder PROMETHEUS_MULTIPROC_DIR, if it is set: `parley.telemetry.metrics` counts in files there."""
    if folder := env.str("PROMETHEUS_MULTIPROC_DIR", default=""):
        Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)


def broker_options(url: str) -> dict[str, Any]:
    """Celery's transport options for `CELERY_BROKER_URL`.

    On Redis, Celery imitates acknowledgements with two transactions per message, and redelivers after an hour. The
    sweep finds a lost run in half a minute, so this is turned off. It also reads a list for each of four priorities,
    and nobody sets any.
    """
    return {"ack_emulation": False, "priority_steps": [0]} if url.startswith(("redis://", "rediss://")) else {}
