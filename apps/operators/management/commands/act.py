"""`./manage.py act NAME ID… --as EMAIL`."""

from typing import Any

from django.contrib.admin import autodiscover
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser

from apps.accounts.models import User
from apps.operators import bulk
from apps.operators.models import BulkRow
from parley.faces.commands import WRONG_ARGUMENTS, QuickCommand


class Command(QuickCommand):
    help = (
        "Does to rows what a button of the admin does, such as schedule.pause. Without a name it lists what there is."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", nargs="?", help="such as schedule.pause")
        parser.add_argument("ids", nargs="*", metavar="ID", help="of the rows")
        parser.add_argument("--as", dest="email", help="the e-mail address of the operator who does it")

    def handle(self, *args: Any, name: str | None, ids: list[str], email: str | None, **options: Any) -> None:
        autodiscover()  # admin's modules register the actions
        if name is None:
            for key, known in sorted(bulk.ACTIONS.items()):
                self.stdout.write(f"{key:24} {known.model._meta.verbose_name_plural}: {known.label}")
            return
        action = bulk.ACTIONS.get(name)
        operator = User.objects.filter(email=email, is_active=True).first() if email else None
        if action is None or operator is None or not ids:
            sentence = "an act of the list that `act` alone shows, the ids of rows, and --as with an operator's address"
            raise CommandError(f"Give {sentence}.", returncode=WRONG_ARGUMENTS)
        if not (operator.is_operator and operator.has_perm(action.permission)):
            raise CommandError(f"{email} may not do this.", returncode=1)
        name = str(action.model._meta.verbose_name)
        try:
            keys = list(dict.fromkeys(action.model._meta.pk.to_python(one) for one in ids))
            found = set(action.rows().filter(pk__in=keys).values_list("pk", flat=True))
        except (ValidationError, OverflowError):
            raise CommandError(f"These are not ids of a {name}.", returncode=WRONG_ARGUMENTS) from None
        if unknown := [one for one in keys if one not in found]:
            raise CommandError(f"There is no {name} {unknown[0]}.", returncode=1)
        if len(keys) > bulk.AT_ONCE:
            raise CommandError(f"Give at most {bulk.AT_ONCE} ids at once.", returncode=WRONG_ARGUMENTS)
        done = bulk.begin(action, operator, keys)
        for row in done.rows.order_by("number"):
            self.stdout.write(f"{row.key}: {row.get_outcome_display().lower()}. {row.note}")
        if done.rows.exclude(outcome=BulkRow.Outcome.DONE).exists():
            raise CommandError(f"{bulk.summary(done)}.", returncode=1)
