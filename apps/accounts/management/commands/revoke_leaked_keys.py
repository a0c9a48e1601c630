"""`./manage.py revoke_leaked_keys < file`."""

from __future__ import annotations

import sys
from itertools import batched
from typing import Any

from apps.accounts.keys import revoke_leaked_keys
from apps.accounts.secrets.key_format import texts_of_keys
from parley.faces.commands import QuickCommand

LINES_AT_ONCE = 500


class Command(QuickCommand):
    help = (
        "Reads any text, such as a log or a search result, and revokes the usable API keys whose whole text is in it. "
        "Prints the public name of each revoked key."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        for lines in batched(sys.stdin, LINES_AT_ONCE):
            found = {text: "" for line in lines for text in texts_of_keys(line)}
            for key in revoke_leaked_keys(found).values():
                self.stdout.write(str(key))
