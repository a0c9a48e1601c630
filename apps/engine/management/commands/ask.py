"""`./manage.py ask SLUG "text" [--file F] [--context ID]`: talks to an agent from the terminal, live."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from agentkit.outcomes import NO_ANSWER
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.engine.management import terminal as talk
from apps.engine.worker import close_current_worker
from apps.record.errors import Refusal
from apps.record.events import JSON
from apps.record.models import Task, TaskState
from parley import db
from parley.faces.commands import QuickCommand
from parley.terminal.questions import joined, read_pipe
from parley.terminal.screen import Screen

INTERRUPTED = 130  # what shells report for a program ended by Ctrl-C
MOST_CHOICES = 2000  # characters


class Command(QuickCommand):
    help = "Sends a message to an agent, shows its progress, asks you its questions and saves its files."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="slug of the agent")
        parser.add_argument("text", nargs="?", default="", help="the message; what a pipe has is added to it")
        parser.add_argument("--answers", action="store_true", help="the pipe has answers to questions, a line each")
        parser.add_argument(
            "--file", action="append", type=Path, default=[], metavar="F", help="a file to attach; can be repeated"
        )
        parser.add_argument("--context", default="", metavar="ID", help="the session to continue")
        parser.add_argument(
            "--as", dest="email", metavar="EMAIL", help="the user to act as; default: the first operator or user"
        )

    def handle(
        self, *args: Any, slug: str, text: str, file: list[Path], context: str, email: str | None, answers: bool,
        **options: Any,
    ) -> None:  # fmt: skip
        text = joined(text, read_pipe(with_answers=answers))
        if not (text or file):
            raise CommandError("There is no message. Give one as text, by --file, or on standard input.", returncode=2)
        self.principal = _user(email).principal
        self.agent = self._agent(slug)
        self.screen = Screen(save=Path())
        try:
            with asyncio.Runner() as self.runner:
                task = talk.waiting_task(self.principal, self.agent, context) if context else None
                finished = self._talk(text, file, context, task)
        except Refusal as refusal:
            raise CommandError(str(refusal)) from refusal
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}") from error
        except KeyboardInterrupt:
            raise CommandError("Canceled.", returncode=INTERRUPTED) from None
        finally:
            close_current_worker(grace=2)
            db.close()
        if finished is not None and finished.state != TaskState.COMPLETED:
            raise CommandError(f"The task ended as {finished.state}.")

    def _agent(self, slug: str) -> Agent:
        agents = {agent.slug: agent for agent in Agent.objects.visible_to(self.principal)}
        if slug not in agents:
            known = ", ".join(sorted(agents)) or "none yet"
            raise CommandError(f"There is no agent {slug!r} for {self.principal.name}. Available agents: {known}.")
        return agents[slug]

    def _talk(self, text: str, files: list[Path], context_id: str, task_id: Any) -> Task | None:
        """Send, follow and answer until the task ends; None if the answer was a message."""
        while True:
            message = talk.message_of(text, files, context_id=context_id, task=task_id)
            sent, task = self.runner.run(talk.ask(self.principal, self.agent, message, self.screen.show))
            if task is None:
                self.screen.deliver_parts(None, talk.inlined((sent.answer or {})["parts"]))
                self._point_to((sent.answer or {})["contextId"])
                return None
            if not TaskState(task.state).is_interrupted:
                artifacts = talk.artifacts_of(task)
                if task.state == TaskState.COMPLETED:
                    silent: list[JSON] = [] if artifacts else [{"text": NO_ANSWER}]
                    self.screen.deliver_parts(None, talk.inlined((task.status_message or {}).get("parts", silent)))
                self.screen.deliver(None, artifacts)
                self._point_to(task.context.context_id)
                return task
            context_id, task_id = task.context.context_id, task.pk
            text, files = self._answer(task)

    def _answer(self, task: Task) -> tuple[str, list[Path]]:
        """The person's answer; `@path` sends a file. Ctrl-C cancels the task, end of input leaves it waiting."""
        schema = (task.slot or {}).get("schema") or {}
        fields = schema.get("properties") or {}
        for name, field in (fields or {"Choose one of": schema}).items():
            if choices := field.get("enum"):
                self.screen.note(f"{name}: {', '.join(map(str, choices))}", most=MOST_CHOICES)
        if len(fields) > 1:
            self.screen.note(f"Answer with JSON: {json.dumps(dict.fromkeys(fields, '…'), ensure_ascii=False)}")
        if schema.get("format") == "binary":
            self.screen.note("Answer with @path to send a file.")
        try:
            answer = input("> ").strip()
        except EOFError:
            raise CommandError(
                f"The agent waits for an answer. Continue with --context {task.context.context_id}"
            ) from None
        except KeyboardInterrupt:
            talk.stop(task.pk)
            raise
        path = Path(answer.removeprefix("@")).expanduser()
        return ("", [path]) if answer.startswith("@") and path.is_file() else (answer, [])

    def _point_to(self, context_id: str) -> None:
        self.screen.note(f"(continue with --context {context_id})")


def _user(email: str | None) -> User:
    users = User.objects.filter(is_active=True)
    found = users.filter(email__iexact=email.strip()) if email else users.order_by("-is_staff", "pk")
    if user := found.first():
        return user
    wanted = email or "you@example.org"
    raise CommandError(f"There is no user {wanted}. Create one with ./manage.py create_user {wanted}")
