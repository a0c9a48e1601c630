"""Start scripts name it in `DJANGO_SETTINGS_MODULE`."""

from parley.settings import *  # noqa: F403
