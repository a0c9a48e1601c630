"""The former name of `parley`, for start scripts written before 0.2. It goes in 0.3; the wheel does not have it."""

import warnings

warnings.warn("Start parley, not config: parley.asgi:application, celery -A parley.", FutureWarning, stacklevel=2)
