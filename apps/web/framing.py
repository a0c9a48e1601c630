"""Pages that take secrets are shown in no other site's frame."""

from typing import Any

from django.conf import settings
from django.utils.csp import CSP

UNFRAMED: dict[str, Any] = {**settings.SECURE_CSP, "frame-ancestors": [CSP.NONE]}
