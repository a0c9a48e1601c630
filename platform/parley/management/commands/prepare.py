"""`./manage.py prepare [--no-static]`: what must be done once before the processes of a new version start."""

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser

from apps.installation.safety import unsafe_settings
from apps.plans.planner import register_planner
from apps.routing.router import register_house_agents
from parley.db import reach
from parley.management.left_out import refuse_apps_with_rows
from parley.misconfigured import stop
from parley.serving import static_files


class Command(BaseCommand):
    help = "Migrates the database, collects static files if they changed, and registers the general agents."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--no-static", action="store_true", help="static files are collected already")

    def execute(self, *args: Any, **options: Any) -> Any:
        if found := unsafe_settings():
            stop(*found)
        reach.check()
        return super().execute(*args, **options)  # Django's checks import every page

    def handle(self, *args: Any, no_static: bool, **options: Any) -> None:
        call_command("migrate", interactive=False, verbosity=0)
        refuse_apps_with_rows()
        if not no_static:
            static_files.collect_if_changed()
        register_house_agents()
        register_planner()
