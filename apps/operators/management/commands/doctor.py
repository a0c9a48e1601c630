"""`./manage.py doctor [--json] [--url PUBLIC_BASE_URL] [--resolve HOST:PORT:ADDRESS] [--send-test-email ADDRESS]`."""

import json
from dataclasses import asdict, replace
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from apps.operators.doctor import CHECKS, Check, Finding, Patient, State, examine
from apps.operators.doctor.calls import resolved
from parley.faces.commands import QuickCommand
from parley.program import program


class Command(QuickCommand):
    help = (
        "Examines this installation from end to end: settings, services, proxy, pages, a message, mail and more. "
        "Prints a line for each check, and what to do where it is not ok. Exits with 1 if there is a problem."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON document")
        parser.add_argument("--url", default=settings.PUBLIC_BASE_URL, help="default: PUBLIC_BASE_URL")
        parser.add_argument(
            "--resolve", metavar="HOST:PORT:ADDRESS", action="append", default=[],
            help="where this name and port are, whatever DNS says; may be given again",
        )  # fmt: skip
        parser.add_argument("--send-test-email", metavar="ADDRESS", default="", help="also send a message there")

    def handle(
        self, *args: Any, as_json: bool, url: str, resolve: list[str], send_test_email: str, **options: Any
    ) -> None:
        try:
            patient = Patient(url.rstrip("/"), send_test_email, resolved(resolve))
        except ValueError as error:
            raise CommandError(f"--resolve: {error}", returncode=2) from error
        findings: list[tuple[Check, Finding]] = []
        for check, finding in examine(CHECKS, patient):
            finding = replace(finding, advice=finding.advice.replace("./manage.py", program()))
            findings.append((check, finding))
            if not (as_json or finding.is_skipped):
                self._print(check, finding)
        if not as_json:
            self._print_skipped([one for one in findings if one[1].is_skipped])
        states = [finding.state for _, finding in findings]
        if as_json:
            worst = next((one for one in (State.PROBLEM, State.WARNING) if one in states), State.OK)
            checks = [{"name": check.name, **asdict(found), "page": check.page} for check, found in findings]
            self.stdout.write(json.dumps({"status": worst, "checks": checks}, indent=2))
        if number := states.count(State.PROBLEM):
            raise CommandError(f"{number} problem{'s' if number > 1 else ''} found.", returncode=1)

    def _print_skipped(self, skipped: list[tuple[Check, Finding]]) -> None:
        by_advice: dict[str, list[str]] = {}
        for check, finding in skipped:
            by_advice.setdefault(finding.advice, []).append(check.name)
        for advice, names in by_advice.items():
            self.stdout.write(f"Not checked: {', '.join(names)}.\n  → {advice}")

    def _print(self, check: Check, finding: Finding) -> None:
        styles = {State.OK: self.style.SUCCESS, State.WARNING: self.style.WARNING, State.PROBLEM: self.style.ERROR}
        self.stdout.write(f"{styles[finding.state](f'{finding.state:8}')} {check.name:21} {finding.text}")
        if finding.advice:
            self.stdout.write(f"{'':31}→ {finding.advice}\n{'':31}  {check.page}")
        self.stdout.flush()
