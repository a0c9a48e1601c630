"""Where this machine's Chromium is, for tests and for what takes pictures without them; None where it has none."""

import shutil

# The first has no windows of its own to draw, which takes a fifth of the processor's time for each page that is opened.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
WHOLE = next(filter(None, map(shutil.which, NAMES[1:])), None)
"""One with all that people have, such as a viewer for PDF."""
