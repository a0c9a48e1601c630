"""What operators alone do to tasks and runs: run again, give back to the queue, answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django import forms
from django.http import HttpRequest
from unfold.forms import BaseDialogForm
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminPasswordWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from apps.accounts.resources import NotNeeded
from apps.agents.admin.versions import VersionForm
from apps.engine.claim import give_back
from apps.engine.send import accept_and_publish, run_again
from apps.engine.turns.delegation import principal_of
from apps.operators.bulk import Doing, RowAction, register
from apps.record.content import schema_forms
from apps.record.content.composing import compose, parts_of
from apps.record.content.rendering import summarize_parts
from apps.record.content.schema_forms import Field
from apps.record.errors import InvalidParams
from apps.record.execution import Run
from apps.record.models import Task, TaskState

CHANGE_TASK = "record.change_task"


def _run_again(task: Task, doing: Doing) -> str:
    return f"Runs again as task {run_again(task, doing.key).task}."


def _newest_run(task: Task) -> Run | None:
    return task.runs.order_by("-turn").first()


def _give_back(task: Task, doing: Doing) -> str:
    return _give_run_back(_newest_run(task), doing)


def _give_run_back(run: Run | None, doing: Doing) -> str:
    """A second try does not take the run from a worker that claimed it after the first one."""
    if run and doing.again and _mark_of_run(run) != doing.before:
        return "Queued again."
    if run and run.state == Run.State.QUEUED:
        raise NotNeeded("It is in the queue already.")
    if run is None or run.state != Run.State.RUNNING:
        raise NotNeeded("No worker has it.")
    return f"Taken from {give_back(run.pk, run.fence)} and queued again."


def _mark_of_run(run: Run) -> str:
    return f"{run.pk} {run.fence}"


def _mark_of_newest_run(task: Task) -> str:
    return _mark_of_run(newest) if (newest := _newest_run(task)) else ""


OF_TASK = ("context", "agent", "owner")
RUN_AGAIN = register(
    RowAction(
        "task.run-again",
        "Run again",
        Task,
        CHANGE_TASK,
        _run_again,
        OF_TASK,
        question="Run this task again?",
        effect="Sends the task's first message again for its owner, as a new task in the same session.",
        icon="replay",
    )
)
GIVE_BACK = register(
    RowAction(
        "task.give-back",
        "Give back to the queue",
        Task,
        CHANGE_TASK,
        _give_back,
        OF_TASK,
        mark=_mark_of_newest_run,
        question="Give the run back to the queue?",
        effect="Its worker loses it, and another one starts the turn again. Do this if the worker is stuck.",
        icon="undo",
        is_offered=lambda task: task.runs.filter(state=Run.State.RUNNING).exists(),
    )
)
GIVE_RUN_BACK = register(
    replace(
        GIVE_BACK,
        key="run.give-back",
        model=Run,
        permission="record.change_run",
        act=_give_run_back,
        select_related=("task",),
        mark=_mark_of_run,
        is_offered=lambda run: run.state == Run.State.RUNNING,
    )
)


class RunVersionForm(VersionForm):
    """The version with which a task runs again."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.task = Task.objects.select_related(*OF_TASK).filter(pk=self.object_id).first()
        if self.task is not None:
            self.offer_versions(self.task.agent)


RUN_VERSION_DIALOG: Any = {
    "title": "Run this task again with another version?",
    "description": RUN_AGAIN.effect,
    "form_submit_text": "Run again",
    "form_class": RunVersionForm,
}


class AnswerForm(BaseDialogForm):
    """The answer to a task's question. Its fields are those that people see; files are left to the task's owner."""

    words = forms.CharField(
        label="Answer in words", required=False, max_length=10_000, widget=UnfoldAdminTextareaWidget
    )
    asked = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(
        self, request: HttpRequest, object_id: str | None = None, data: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(request, object_id, data, **kwargs)
        self.task = _asking_task(object_id)
        self.fields["asked"].initial = self.task.status_event if self.task else 0
        self.asked_fields = (
            [one for one in schema_forms.fields_of(self.task.slot) if one.kind != "file"] if self.task else []
        )
        for one in self.asked_fields:
            self.fields[one.html_name] = _form_field(one)
        if self.task and self.task.status_message:
            self.fields["words"].help_text = summarize_parts(self.task.status_message.get("parts", []))
        self.answer: Any = None

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        if self.task is None:
            raise forms.ValidationError("The task asks nothing any more. Reload the page.")
        given: dict[str, Sequence[str]] = {
            one.html_name: chosen if isinstance(chosen := values.get(one.html_name) or "", list) else [chosen]
            for one in self.asked_fields
        }
        if any(any(texts) for texts in given.values()) or not values.get("words"):
            try:
                self.answer = schema_forms.answer_data(self.task.slot, self.asked_fields, given)
            except InvalidParams as error:
                self.add_error(error.field if error.field in self.fields else None, str(error))
        if self.answer is None and not values.get("words") and not self.errors:
            raise forms.ValidationError("Write an answer.")
        return values

    def send(self) -> str:
        """Send the answer for the task's owner; returns a sentence. Raises Refusal."""
        assert self.task is not None
        parts = parts_of(self.cleaned_data.get("words", ""), data=self.answer)
        message = compose(parts, task=self.task.pk, metadata={"answeredBy": "operator"})
        accept_and_publish(principal_of(self.task), self.task.agent, message, question_index=self.cleaned_data["asked"])
        return "Answered."


ANSWER_DIALOG: Any = {
    "title": "Answer for the task's owner",
    "description": "The agent gets the answer as its owner's, marked as given by an operator.",
    "form_submit_text": "Send answer",
    "form_class": AnswerForm,
}


def _asking_task(key: Any) -> Task | None:
    asking = Task.objects.select_related(*OF_TASK).filter(state=TaskState.INPUT_REQUIRED)
    return asking.filter(pk=key).first()


def _form_field(asked: Field) -> forms.Field:
    """A field whose texts `schema_forms.answer_from` reads."""
    common: dict[str, Any] = {"label": asked.label, "required": False, "help_text": asked.hint}
    match asked.kind:
        case "choices":
            boxes = UnfoldAdminCheckboxSelectMultipleWidget
            return forms.MultipleChoiceField(choices=asked.options, widget=boxes, **common)
        case "choice" | "boolean":
            return forms.ChoiceField(choices=[("", "–"), *asked.options], widget=UnfoldAdminSelectWidget, **common)
        case "long-text":
            return forms.CharField(widget=UnfoldAdminTextareaWidget, initial=asked.default_text, **common)
        case _:
            widget = UnfoldAdminPasswordWidget if asked.is_secret else UnfoldAdminTextInputWidget
            return forms.CharField(widget=widget, initial=asked.default_text, **common)
