"""`./manage.py serve [--no-showcase] [--no-worker]`: what `make run` starts."""

import json
import shlex
import uuid
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from examples import showcase
from parley.program import program
from parley.serving import server


class Command(BaseCommand):
    help = "Prepares the database, static files and showcase, then runs the web server and a worker in one process."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--no-showcase", action="store_true", help="create no demo users and agents")
        parser.add_argument("--no-worker", action="store_true", help="run the web server only; workers run elsewhere")

    def handle(self, *args: Any, no_showcase: bool, no_worker: bool, **options: Any) -> None:
        try:
            server.check_address(settings.HOST, settings.PORT)
            self.tell("Preparing the database, files and agents…")
            call_command("prepare")
            if not no_showcase:
                self.tell("Loading the examples…")
            loaded = None if no_showcase else showcase.load_showcase()
            self.tell("Starting the server…")
            from parley.asgi import application  # it needs the migrations

            server.serve(
                application,
                settings.HOST,
                settings.PORT,
                worker=not no_worker,
                ready=lambda: self.greet(loaded),
            )
        except server.AddressTaken as error:
            raise CommandError(str(error)) from error

    def tell(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()

    def greet(self, loaded: showcase.Loaded | None) -> None:
        """Say where to sign in, and how. Secrets are shown at a terminal alone: other output is kept in logs."""
        base = settings.PUBLIC_BASE_URL
        lines = [f"Parley is running at {base}/   (press Ctrl-C to stop)"]
        if loaded is None:
            lines += ["", f"Create the first user: {program()} create_user you@example.org --operator"]
        else:
            file = str(loaded.logins.path())
            key = loaded.logins.api_keys.get(showcase.DEMO, "<API key>")
            logins = _logins(loaded)
            if logins and not self.stdout.isatty():
                logins = ["", f"The first logins are in {file}"]
                key = f"$(sed -n 's/^API key of {showcase.DEMO}: //p' {shlex.quote(file)})"
            lines += [*loaded.problems, *logins, "", "Talk to an agent from a terminal:", "", curl(base, key)]
        self.stdout.write("\n".join(lines) + "\n")
        self.stdout.flush()


def _logins(loaded: showcase.Loaded) -> list[str]:
    lines = ["", "Sign in with one of the first logins:"] if loaded.logins.passwords else []
    for email, password in loaded.logins.passwords.items():
        where = "operator, /admin/" if email == showcase.ADMIN else "member"
        lines.append(f"  {email}  {password}  ({where})")
    lines += [f"  API key  {key}  (for {email})" for email, key in loaded.logins.api_keys.items()]
    return lines


def curl(base: str, key: str) -> str:
    """A shell command that sends a message to the echo agent over A2A 1.0. The shell may still put the key in."""
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "Hello, Parley"}]}
    request = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    return (
        f"curl -s {base}/a2a/echo -H \"Authorization: Bearer {key}\" -H 'A2A-Version: 1.0' "
        f"-H 'Content-Type: application/json' -d '{json.dumps(request)}'"
    )
