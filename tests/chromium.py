"""Where this machine's Chromium is, for tests and for what takes pictures without them; None where it has none."""

import shutil

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
