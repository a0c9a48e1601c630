"""`./manage.py index_search [--all]`."""

from typing import Any

from django.core.management.base import CommandParser

from apps.conversations.search import indexing
from apps.conversations.search.models import Indexed, SearchEntry
from parley.faces.commands import QuickCommand


class Command(QuickCommand):
    help = "Updates the search index."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--all", action="store_true", help="rebuild it from the beginning")

    def handle(self, *args: Any, all: bool, **options: Any) -> None:
        if all:
            indexing.reset_index()
        indexing.index_everything()
        self.stdout.write(f"{SearchEntry.objects.count()} entries from {Indexed.objects.count()} sessions.")
