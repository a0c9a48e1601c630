"""Static files: collected only after changes, and served on the event loop."""

from __future__ import annotations

import hashlib
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.apps import StaticFilesConfig
from django.contrib.staticfiles.finders import get_finders
from django.contrib.staticfiles.storage import staticfiles_storage
from django.core.management import call_command
from django.http import HttpRequest, HttpResponse, HttpResponseNotFound
from django.middleware.security import SecurityMiddleware
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.storage import CompressedManifestStaticFilesStorage

from parley.serving.middleware import CSPMiddleware


class StaticFiles(StaticFilesConfig):
    """Ignores packages' files that no page uses: collecting them would take most of the first start."""

    ignore_patterns = [
        *StaticFilesConfig.ignore_patterns, "rest_framework", "redoc", "oauth2-redirect.*",
        "swagger-ui-standalone-preset.*", "htmax-*", "htmx-4.*", "htmx-2.js", "ext",
    ]  # fmt: skip


class ModuleStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    """Files named by content, also in imports of ES modules: a page never mixes old and new scripts."""

    support_js_module_import_aggregation = True
    max_post_process_passes = 12  # the longest chain of imports


def collect_if_changed() -> bool:
    """Run `collectstatic` if sources changed; says whether it ran."""
    mark = Path(settings.STATIC_ROOT) / ".collected"
    now = _fingerprint()
    if mark.exists() and mark.read_text() == now:
        return False
    call_command("collectstatic", interactive=False, verbosity=0)
    mark.write_text(now)
    return True


def _fingerprint() -> str:
    """Changes when a source file does."""
    digest = hashlib.sha256(str(settings.STORAGES["staticfiles"]).encode())
    for finder in get_finders():
        for path, storage in finder.list(ignore_patterns=None):
            stat = Path(storage.path(path)).stat()
            digest.update(f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def find_missing() -> str:
    """Why pages of this process have no style, and what to do; "" if they have."""
    if settings.DEBUG:
        return ""
    if not (Path(settings.STATIC_ROOT) / "staticfiles.json").exists():
        return "Static files are not collected. Run ./manage.py collectstatic and restart."
    storage: Any = staticfiles_storage  # Django does not say that it is ModuleStorage
    named, served = storage.hashed_files.values(), _white_noise().files
    if not named or any(f"{settings.STATIC_URL}{name}" not in served for name in named):
        return "Static files were collected after this process had looked for them. Restart it."
    return ""


async def static_file(request: HttpRequest, name: str) -> HttpResponse:
    """WhiteNoise's response, read at once: for small files a thread costs more."""
    answer = _static_middleware()(request)
    with closing(answer):
        return HttpResponse(answer.getvalue(), status=answer.status_code, headers=answer.headers)


@cache
def _static_middleware() -> Any:
    """WhiteNoise behind the middleware for security headers."""
    return SecurityMiddleware(CSPMiddleware(_white_noise()))


@cache
def _white_noise() -> Any:
    """It knows the files that were there when it was made."""
    return WhiteNoiseMiddleware(_not_found)


def _not_found(request: HttpRequest) -> HttpResponse:
    return HttpResponseNotFound()
