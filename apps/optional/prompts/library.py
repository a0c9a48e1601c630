"""Saving, copying, using and restoring prompts.

Whoever sees a prompt may use and copy it. Its owner changes it, and if it is shared, so do managers of the workspace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from django.db import IntegrityError, transaction
from django.db.models import F, Max, QuerySet
from django.utils.text import slugify

from apps.accounts.errors import Kind
from apps.accounts.models import User
from apps.accounts.permissions import Permission
from apps.accounts.principals import WRITE, Principal
from apps.accounts.resources import Act, NotNeeded, Resource, deleting
from apps.doors.prompts import OfferedPrompt, PromptVariable
from apps.optional.prompts.models import MAX_SLUG, Prompt, PromptVersion
from apps.record.errors import InvalidFields, Refusal, UnsupportedOperation
from apps.record.reading.visibility import shared_workspace
from parley.db import sql

MOST_PROMPTS = 1000  # of a person in a workspace
VERSIONS_KEPT = 50  # of a prompt
EDITED = ("name", "slug", "text", "description", "tags", "is_shared", "updated_at")


class NotYours(Refusal):
    """Only who made this prompt, and managers of the workspace, can change it. Copy it, and change the copy."""

    kind = Kind.FORBIDDEN


class TooManyPrompts(UnsupportedOperation):
    """You have as many prompts as one person may have. Delete some first."""


def may_change(principal: Principal, prompt: Prompt) -> bool:
    is_own = principal.owns(prompt.owner_id, prompt.workspace_id)
    is_here = prompt.is_shared and prompt.workspace_id == shared_workspace(principal)
    return is_own or (is_here and principal.can(Permission.SETTINGS))


def _check_may_change(prompt: Prompt, principal: Principal) -> None:
    """Raises NotYours."""
    if not may_change(principal, prompt):
        raise NotYours


def save(principal: Principal, prompt: Prompt) -> Prompt:
    """Save a new or a changed prompt, and its text as a version. A new one whose command is taken gets a number.

    Raises InvalidFields, NotYours, TooManyPrompts, ObjectNotUpdated.
    """
    is_new = prompt._state.adding
    with sql.write_transaction():
        caller = User.objects.select_for_update(no_key=True).get(pk=cast("int", principal.user_id))  # one by one
        if is_new:
            prompt.owner_id, prompt.workspace_id = caller.pk, cast("int", principal.workspace_id)
            if Prompt.objects.filter(**principal.own()).count() >= MOST_PROMPTS:
                raise TooManyPrompts
        elif stored := Prompt.objects.filter(pk=prompt.pk).first():
            _check_may_change(stored, principal)
        _name(prompt, is_new)
        _store(prompt, is_new)
        _keep_version(prompt, principal)
    return prompt


def _store(prompt: Prompt, is_new: bool) -> None:
    try:
        with transaction.atomic():
            prompt.save(update_fields=None if is_new else EDITED)
    except IntegrityError:  # another member shared the same command just now
        raise _taken(prompt) from None


def _name(prompt: Prompt, is_new: bool) -> None:
    """Give it a command that is free. Raises InvalidFields."""
    wanted = prompt.slug or slugify(prompt.name)[:MAX_SLUG].strip("-_").replace("_", "-") or "prompt"
    taken = set(_others(prompt).values_list("slug", flat=True))
    if wanted in taken and not is_new:
        raise _taken(prompt)
    prompt.slug = next(one for one in _numbered(wanted, len(taken) + 2) if one not in taken)


def _numbered(slug: str, most: int) -> list[str]:
    beginnings = ((slug[: MAX_SLUG - 1 - len(str(number))].rstrip("-"), number) for number in range(2, most + 1))
    return [slug, *(f"{beginning}-{number}" for beginning, number in beginnings)]


def _others(prompt: Prompt) -> QuerySet[Prompt]:
    """Those whose commands it must not have."""
    here = Prompt.objects.filter(workspace=prompt.workspace_id).exclude(pk=prompt.pk)
    own = here.filter(owner=prompt.owner_id)
    return own | here.filter(is_shared=True) if prompt.is_shared else own


def _taken(prompt: Prompt) -> InvalidFields:
    whose = "You or your workspace have" if prompt.is_shared else "You have"
    return InvalidFields([("slug", f"{whose} a prompt /{prompt.slug} already. Choose another command.")])


def _keep_version(prompt: Prompt, principal: Principal) -> None:
    versions = PromptVersion.objects.filter(prompt=prompt)
    newest = versions.order_by("-number").first()
    if newest is not None and newest.text == prompt.text:
        return
    number = (versions.aggregate(last=Max("number"))["last"] or 0) + 1
    PromptVersion.objects.create(prompt=prompt, number=number, text=prompt.text, author_id=principal.user_id)
    versions.filter(number__lte=number - VERSIONS_KEPT).delete()


def _copy(prompt: Prompt, principal: Principal) -> Prompt:
    fields = {name: getattr(prompt, name) for name in ("name", "slug", "text", "description", "tags")}
    return save(principal, Prompt(**fields))


def _restore(version: PromptVersion, principal: Principal) -> Prompt:
    prompt = version.prompt
    if prompt.text == version.text:
        raise NotNeeded("It has this text already.")
    prompt.text = version.text
    return save(principal, prompt)


COPY = Act[Prompt](
    "copy", "Copy", _copy, "Copy a prompt", "The copy is yours alone.",
    lambda made: f"Your copy is /{made.slug}.", starts_work=True, repeats=False, icon="content_copy",
)  # fmt: skip
_DELETE: Act[Prompt] = deleting("a prompt and its versions", "Messages that were written with it stay.")
DELETE = replace(_DELETE, check=_check_may_change)
RESTORE = Act[PromptVersion](
    "restore", "Restore", _restore, "Restore a version of a prompt", "Its text becomes the newest version.",
    lambda prompt: "Restored.", check=lambda version, principal: _check_may_change(version.prompt, principal),
)  # fmt: skip
PROMPTS = Resource("prompts", "prompt", Prompt, save, (COPY, DELETE), ("owner",))
VERSIONS = Resource(
    "versions", "version", PromptVersion, acts=(RESTORE,), related=("author", "prompt"), order=("-number",)
)


def use(principal: Principal, prompt: Prompt, values: Mapping[str, str]) -> str:
    """The text with these values. It counts as a use of who may write. Raises InvalidFields."""
    text = prompt.template.render(values)
    if principal.may(WRITE) and principal.can(Permission.SEND):
        Prompt.objects.visible_to(principal).filter(pk=prompt.pk).update(used=F("used") + 1)
    return text


def usable(principal: Principal, **only: str) -> list[Prompt]:
    """What the caller can use, the most used first. Of two with one command, their own. `only`: values of fields."""
    found = Prompt.objects.visible_to(principal).filter(**only).order_by("-used", "name", "pk")
    own_first = sorted(found, key=lambda one: one.owner_id != principal.user_id)
    chosen = {one.slug: one.pk for one in reversed(own_first)}
    return [one for one in found if chosen[one.slug] == one.pk]


def sweep() -> int:
    """Deletes prompts of deleted workspaces. Returns how many."""
    return sql.delete_in_batches(Prompt.objects.filter(workspace__deleted_at__isnull=False))


class OfferedLibrary:
    """What other protocols offer (`apps.doors.prompts.Library`)."""

    def offered_to(self, principal: Principal) -> list[OfferedPrompt]:
        return sorted((_offer(one) for one in usable(principal)), key=lambda one: one.name)

    def render(self, principal: Principal, name: str, values: Mapping[str, str]) -> tuple[OfferedPrompt, str] | None:
        for found in usable(principal, slug=name):
            return _offer(found), use(principal, found, values)
        return None


def _offer(prompt: Prompt) -> OfferedPrompt:
    variables = [PromptVariable(one.name, one.about, one.is_required) for one in prompt.template.variables]
    return OfferedPrompt(prompt.slug, prompt.name, prompt.description, variables)


OFFERED = OfferedLibrary()
