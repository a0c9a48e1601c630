"""`./manage.py rebuild_analytics`."""

from typing import Any

from apps.analytics import rollup, storage
from parley.faces.commands import QuickCommand


class Command(QuickCommand):
    help = "Makes the sums of the dashboard and of analytics again, from the record."

    def handle(self, *args: Any, **options: Any) -> None:
        rows = rollup.rebuild()
        storage.measure()
        self.stdout.write(f"{rows:,} rows were counted.")
