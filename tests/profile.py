"""The environment of a test run, set before Django reads its settings (loaded early by `-p tests.profile`).

`make test` runs on the embedded profile; `make test-services` names PostgreSQL, a broker and Redis in the environment.
"""

import os
import tempfile

os.environ["DATA_DIR"] = tempfile.mkdtemp(prefix="parley-tests-")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
os.environ["SECRET_KEY"] = "a key for tests alone, which protects nothing at all"
os.environ["MASTER_KEY"] = "YSBrZXkgZm9yIHRlc3RzIGFsb25lLCAzMiBieXRlcyE"
for name in ("PUBLIC_BASE_URL", "LLM_API_KEY"):
    os.environ.pop(name, None)
