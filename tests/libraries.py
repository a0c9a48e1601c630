"""What programs of the tests find in memory: libraries that need neither settings nor a reactor to be read."""

import gc
from importlib import import_module

gc.disable()
for _name in (
    "a2a.client",
    "a2a.compat.v0_3.conversions",
    "a2a.types",
    "a2a.utils.signing",
    "autobahn.websocket.protocol",
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.fixups.django",
    "channels.generic.websocket",
    "channels.routing",
    "channels_redis.pubsub",
    "cryptography.x509",
    "django.contrib.admin.utils",
    "django.contrib.staticfiles.storage",
    "django.core.management.commands.migrate",
    "django.db.backends.postgresql.base",
    "django.db.backends.sqlite3.base",
    "django.forms",
    "django.template.defaulttags",
    "django.views.debug",
    "django.views.generic",
    "environ",
    "filetype",
    "httpcore2",
    "httpx",
    "httpx2",
    "jinja2",
    "joserfc.jws",
    "jsonschema",
    "kombu.transport.memory",
    "kombu.transport.pyamqp",
    "kombu.transport.redis",
    "markdown_it",
    "nh3",
    "opentelemetry.sdk.trace",
    "psycopg_pool",
    "pygments.formatters.html",
    "redis.asyncio",
    "requests",
    "rfc8785",
    "service_identity",
    "structlog",
    "tests.programs",
    "twisted.internet.endpoints",
    "twisted.web.http",
    "whitenoise.middleware",
):
    import_module(_name)
gc.enable()
gc.freeze()
