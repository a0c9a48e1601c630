"""The environment of a test run, set before Django reads its settings (`-p tests.profile`).

`make test` uses the embedded profile; `make test-services` sets PostgreSQL, broker and Redis. Each parallel worker
has its own data, queue and names.
"""

import atexit
import os
import shutil
import tempfile
import uuid
from pathlib import Path

from tests import patterns

patterns.folder()  # before parallel workers begin, so that all have one
os.environ["INSTALLATION"] = f"parley-test-{uuid.uuid4().hex[:8]}"
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "parley.settings")
os.environ["SECRET_KEY"] = "a key for tests alone, which protects nothing at all"
os.environ["MASTER_KEY"] = "YSBrZXkgZm9yIHRlc3RzIGFsb25lLCAzMiBieXRlcyE"
os.environ["MODEL_TITLES"] = "false"  # a scripted endpoint answers agents alone
# Test data need not survive a crash, so no commit waits for the disk.
os.environ["PGOPTIONS"] = "-c synchronous_commit=off"
os.environ["DATA_DIR"] = tempfile.mkdtemp(prefix="parley-tests-")
atexit.register(shutil.rmtree, os.environ["DATA_DIR"], ignore_errors=True)
Path(os.environ["DATA_DIR"], "static").mkdir()  # WhiteNoise needs the folder
# No public authorities are needed, and each httpx client would load all their certificates.
os.environ["SSL_CERT_DIR"] = os.environ["DATA_DIR"]
for name in ("PUBLIC_BASE_URL", "LLM_API_KEY", "SSL_CERT_FILE"):  # the file would override the folder
    os.environ.pop(name, None)
