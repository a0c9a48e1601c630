"""Prompts, and the versions of their texts."""

from __future__ import annotations

import uuid
from typing import Self

from django.conf import settings
from django.core.validators import MaxLengthValidator, RegexValidator
from django.db import models
from django.utils import timezone

from apps.accounts.models import Workspace
from apps.accounts.principals import Principal
from apps.accounts.visibility import OwnedQuerySet
from apps.optional.prompts import variables
from apps.record.reading.visibility import seen_by

MAX_SLUG = 60  # characters
MAX_PROMPT = 50_000  # characters of a text
valid_slug = RegexValidator(r"^[a-z0-9]+(-[a-z0-9]+)*\Z", "Use lower-case letters, digits, and hyphens between them.")
valid_tags = RegexValidator(r"^\w[\w-]*( \w[\w-]*)*\Z", "Write tags as words with one space between them.")


class SharedQuerySet[M: models.Model](OwnedQuerySet[M]):
    def visible_to(self, principal: Principal) -> Self:
        """A known caller's own, and those that others share with the current workspace."""
        return self.filter(seen_by(principal, self.path)) if principal.is_known else self.none()


class PromptQuerySet(SharedQuerySet["Prompt"]):
    pass


class Prompt(models.Model):
    """A text with variables (`variables.py`) that people put into messages by its `slug`."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="prompts", editable=False
    )
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="prompts", editable=False)
    name = models.CharField(max_length=100)
    slug = models.CharField(
        "command", max_length=MAX_SLUG, blank=True, validators=[valid_slug],
        help_text="What you type after / in a message. By default it is made from the name.",
    )  # fmt: skip
    text = models.TextField(
        validators=[MaxLengthValidator(MAX_PROMPT), variables.valid_text],
        help_text="Variables: {{topic}}, {{topic = energy}} with a default, {{tone: formal | friendly}} with choices, "
        "{{notes: long text}} for several lines.",
    )  # fmt: skip
    description = models.CharField(max_length=300, blank=True)
    tags = models.CharField(
        max_length=200, blank=True, validators=[valid_tags], help_text="Words, separated by spaces."
    )
    is_shared = models.BooleanField(
        "shared with the workspace", default=False, help_text="Its members can use and copy it."
    )
    used = models.PositiveIntegerField(default=0, editable=False, help_text="How often it was used.")
    created_at = models.DateTimeField("created", default=timezone.now, editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    objects = PromptQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "workspace", "slug"], name="a_prompt_of_a_person"),
            models.UniqueConstraint(
                fields=["workspace", "slug"], condition=models.Q(is_shared=True), name="a_prompt_of_a_workspace"
            ),
        ]
        indexes = [models.Index(fields=["owner", "workspace", "-created_at"], name="prompts_of_a_person")]

    def __str__(self) -> str:
        return self.name

    @property
    def template(self) -> variables.Template:
        """Its text, parsed. Raises variables.WrongTemplate only for a text that was never checked."""
        return variables.parse(self.text)

    @property
    def tag_list(self) -> list[str]:
        return self.tags.split()


class PromptVersionQuerySet(SharedQuerySet["PromptVersion"]):
    path = "prompt__"


class PromptVersion(models.Model):
    """A text that a prompt had or has: who wrote it, and when."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    prompt = models.ForeignKey(Prompt, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    text = models.TextField()
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)

    objects = PromptVersionQuerySet.as_manager()

    class Meta:
        verbose_name = "version"
        constraints = [models.UniqueConstraint(fields=["prompt", "number"], name="a_version_of_a_prompt")]

    def __str__(self) -> str:
        return f"version {self.number}"
