"""The environment of a test run, set before Django reads its settings (loaded early by `-p tests.profile`).

`make test` runs on the embedded profile; `make test-services` names PostgreSQL, a broker and Redis in the environment.
Each worker of a parallel run loads this anew: it has data, a queue and names of its own.
"""

import atexit
import os
import shutil
import tempfile
import uuid
from pathlib import Path

os.environ["INSTALLATION"] = f"parley-test-{uuid.uuid4().hex[:8]}"
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
os.environ["SECRET_KEY"] = "a key for tests alone, which protects nothing at all"
os.environ["MASTER_KEY"] = "YSBrZXkgZm9yIHRlc3RzIGFsb25lLCAzMiBieXRlcyE"
# What the tests commit need not outlive a crash of the machine: no commit waits for the disk.
os.environ["PGOPTIONS"] = "-c synchronous_commit=off"
os.environ["DATA_DIR"] = tempfile.mkdtemp(prefix="parley-tests-")
atexit.register(shutil.rmtree, os.environ["DATA_DIR"], ignore_errors=True)
Path(os.environ["DATA_DIR"], "static").mkdir()  # nothing is collected; WhiteNoise wants the folder
# No public authority vouches for anybody here, and each client of httpx would read the certificates of all of them.
os.environ["SSL_CERT_DIR"] = os.environ["DATA_DIR"]
for name in ("PUBLIC_BASE_URL", "LLM_API_KEY", "SSL_CERT_FILE"):  # that file would come before the folder
    os.environ.pop(name, None)
