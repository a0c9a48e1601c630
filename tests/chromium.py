"""This machine's Chromium, or None."""

import shutil

# The headless shell draws no windows, which saves a fifth of each page's processor time.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
WHOLE = next(filter(None, map(shutil.which, NAMES[1:])), None)
"""One with all that people have, such as a viewer for PDF."""
