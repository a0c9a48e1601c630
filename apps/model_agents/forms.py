"""The forms of agents without code: what admin's form and the one in the app share, and the latter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.utils.text import slugify

from agentkit import HandlerError
from apps.accounts.models import User
from apps.agents import definitions
from apps.agents.definitions import Definition, RegisteredTool, all_tool_modules
from apps.agents.models import DRAFT_PREFIX, Agent, AgentVersion
from apps.agents.registration import define
from apps.installation.models import SharedToolServer
from apps.model_agents import pictures
from apps.model_agents.language_models import offered_models

JSON = dict[str, Any]

MAX_STARTERS = 6
PAGE_NAMES = frozenset({"new", "draft"})
"""Slugs whose pages have the addresses of others."""
SHARED_FIELDS = ("name", "description", "instructions", "model", "temperature", "max_steps", "tools", "agents")


class DefinitionForm(forms.ModelForm):  # type: ignore[type-arg]
    """A `Definition`, and fields of `Agent`.

    `opened` is the version that was read: nobody overwrites a version they have not seen. `widgets` are those of fields
    that `Meta.widgets` does not reach. `plain_fields` are the definition's fields that the form has as they are.
    """

    widgets: ClassVar[Mapping[str, Callable[[], forms.Widget]]] = {}
    plain_fields: ClassVar[Iterable[str]] = SHARED_FIELDS

    instructions = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 12}),
        help_text="The system prompt: who the agent is, what it does, and what it does not do.",
    )
    model = forms.CharField(required=False, max_length=200)
    temperature = forms.FloatField(
        required=False,
        min_value=0,
        max_value=2,
        help_text="From 0 (predictable) to 2 (creative). Leave it empty for the model's default.",
    )
    max_steps = forms.IntegerField(
        min_value=1,
        max_value=definitions.MAX_STEPS,
        initial=10,
        label="Maximum steps",
        help_text="Calls of the model in one turn. Each use of tools is a step.",
    )
    tools = forms.MultipleChoiceField(required=False)
    agents = forms.MultipleChoiceField(required=False, help_text="Agents that it can call as tools.")
    note = forms.CharField(required=False, max_length=200, help_text="What changed, for the list of versions.")
    opened = forms.IntegerField(required=False, widget=forms.HiddenInput)
    as_candidate = forms.BooleanField(required=False, widget=forms.HiddenInput)  # by the name of a button

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.definition: Definition | None = None
        self.instance.kind = Agent.Kind.MODEL
        for name, widget in self.widgets.items():
            self.fields[name].widget = made = widget()
            made.attrs |= self.fields[name].widget_attrs(made)
        if version := self.instance.current_version:
            self.initial["opened"] = version.number
            self.set_initial(version.content)
        self.set_choices()

    def set_initial(self, content: JSON) -> None:
        self.initial.update({name: content[name] for name in self.plain_fields})

    def set_choices(self) -> None:
        tools, problem = _tools_of(self.tool_modules())
        self.offer("tools", {tool.name: self.label_of(tool) for tool in tools})
        self.fields["tools"].help_text = problem or self.fields["tools"].help_text
        others = self.usable_agents().exclude(pk=self.instance.pk).order_by("name").values_list("slug", "name")
        self.offer("agents", {slug: f"{name} ({slug})" for slug, name in others})

    def offer(self, field: str, offered: Mapping[str, str]) -> None:
        """The choices of a field; what the agent has already stays among them."""
        gone = {one: f"{one}: no longer available" for one in self.initial.get(field, []) if one not in offered}
        self.fields[field].choices = list({**offered, **gone}.items())  # type: ignore[attr-defined]

    def label_of(self, tool: RegisteredTool) -> str:
        return f"{tool.name}: {tool.summary}"

    def tool_modules(self) -> list[str]:
        """The modules whose tools may be given."""
        return all_tool_modules()

    def usable_agents(self) -> Any:
        """The agents that it may be given."""
        return Agent.objects.all()

    def clean(self) -> JSON:
        cleaned: JSON = super().clean() or self.cleaned_data
        self._check_base_version(cleaned)
        if not self.errors:
            self._build_definition(cleaned)
        return cleaned

    def _check_base_version(self, cleaned: JSON) -> None:
        """Locks the agent until the request's transaction ends."""
        if self.instance.pk is None:
            return
        locked = Agent.objects.select_for_update().get(pk=self.instance.pk)
        current = locked.current_version
        if current and cleaned.get("opened") != current.number:
            who = f" by {current.author}" if current.author else ""
            raise ValidationError(
                f"Version {current.number} was saved{who} while you were editing. Open this page in another tab, "
                "and copy your changes there."
            )

    def content_of(self, cleaned: JSON) -> JSON:
        """The definition as JSON; what the form has not stays as it was."""
        return {name: cleaned[name] for name in self.plain_fields}

    def _build_definition(self, cleaned: JSON) -> None:
        try:
            self.definition = Definition.read(self.content_of(cleaned))
            definitions.check_definition(self.definition, cleaned.get("slug") or self.instance.slug)
        except ValidationError as error:
            for field, sentences in error.message_dict.items():
                self.add_error(field if field in self.fields else None, sentences)

    def save_definition(self, author: User) -> AgentVersion:
        """Save the agent, with a new version if its definition changed. Raises ValidationError."""
        if self.definition is None:
            raise AssertionError("a valid form has a definition")
        note, as_candidate = self.cleaned_data.get("note", ""), self.is_candidate
        return define(self.instance, self.definition, author=author, note=note, as_candidate=as_candidate)

    @property
    def is_candidate(self) -> bool:
        """Whether only a version of an agent is to be saved, for a rollout."""
        return self.instance.pk is not None and bool(self.cleaned_data.get("as_candidate"))


def _tools_of(modules: list[str]) -> tuple[list[RegisteredTool], str]:
    """The tools, and an error message or ""."""
    try:
        return list(definitions.registered_tools(modules).values()), ""
    except HandlerError as error:
        return [], str(error)


ACCESS_WORDS: dict[str, str] = {
    Agent.Access.OWNER: "Only me",
    Agent.Access.WORKSPACE: "Everyone in this workspace",
    Agent.Access.GROUPS: "Members of groups",
    Agent.Access.AUTHENTICATED: "Everyone who is signed in",
    Agent.Access.PUBLIC: "Everyone, without signing in",
}


LISTS = ("tools", "servers", "agents")
MORE = ("slug", "temperature", "max_steps", "minutes", "keep_thoughts", "note")
AGENTS_HINT = "It can ask these. Who talks to it must be able to use them."


def minutes_of(seconds: float | None) -> float | None:
    """A time limit for people; a whole number where it is one."""
    minutes = None if seconds is None else seconds / 60
    return minutes if minutes is None else int(minutes) if minutes.is_integer() else round(minutes, 2)


def seconds_of(minutes: float | None) -> float | None:
    return None if minutes is None else 60.0 * minutes


class AgentForm(DefinitionForm):
    """The form in the app. `user` may give the agent only what they may use themselves."""

    drawn: bytes | None = None  # the picture, if it is drawn already
    instructions = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 10, "dir": "auto"}),
        help_text="Who the agent is, what it does, and what it does not do.",
    )
    drawing = forms.FileField(
        required=False,
        label="Picture",
        widget=forms.FileInput(attrs={"accept": ",".join(pictures.TYPES)}),
        help_text=f"PNG, JPEG or WebP, at most {pictures.MAX_BYTES // 1024**2} MB. The middle of it is shown.",
    )
    without_drawing = forms.BooleanField(required=False, label="Remove the picture")
    model = forms.ChoiceField(required=False)  # type: ignore[assignment]
    servers = forms.MultipleChoiceField(required=False, label="Tool servers", widget=forms.CheckboxSelectMultiple)
    starters = forms.CharField(
        required=False,
        label="Starter questions",
        widget=forms.Textarea(attrs={"rows": 4, "dir": "auto"}),
        help_text=f"One a line, at most {MAX_STARTERS}. People start a session with a click.",
    )
    minutes = forms.FloatField(
        min_value=0.1,
        max_value=24 * 60,
        initial=10,
        required=False,
        label="Time limit, in minutes",
        help_text="The longest time for one answer. Empty: no limit.",
    )

    widgets = {"tools": forms.CheckboxSelectMultiple, "agents": forms.CheckboxSelectMultiple}

    class Meta:
        model = Agent
        fields = ("name", "slug", "description", "access", "groups", "keep_thoughts")
        widgets = {
            "name": forms.TextInput(attrs={"dir": "auto", "autocomplete": "off"}),
            "description": forms.Textarea(attrs={"rows": 2, "dir": "auto"}),
            "slug": forms.TextInput(attrs={"autocapitalize": "none", "autocomplete": "off", "spellcheck": "false"}),
            "groups": forms.CheckboxSelectMultiple,
        }
        labels = {"slug": "Short name", "access": "Who may use it", "keep_thoughts": "Keep its thoughts"}
        help_texts = {
            "slug": "Part of the agent's address. Leave it empty to make it from the name.",
            "description": "One sentence, for people and agents that look for one.",
            "keep_thoughts": "People can read how the model came to an answer.",
            "groups": "",
        }

    def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:
        self.user, self.principal = user, user.principal
        super().__init__(*args, **kwargs)
        self.is_new = self.instance.pk is None
        if self.is_new:
            self.instance.owner, self.instance.workspace = user, user.membership.workspace
            self.fields["access"].initial = Agent.Access.OWNER
            self.fields["slug"].required = False
            del self.fields["note"], self.fields["without_drawing"]
        else:
            del self.fields["slug"]
            self.initial["minutes"] = minutes_of(self.instance.time_limit)
        for name in ("description", "groups"):
            self.fields[name].required = False
        if "note" in self.fields:
            self.fields["note"].label = "What you changed"
            self.fields["note"].help_text = "For the list of versions."
        self.fields["agents"].label, self.fields["agents"].help_text = "Other agents", AGENTS_HINT
        self.fields["tools"].help_text = self.fields["tools"].help_text or "What it can do besides writing."

    @property
    def lists(self) -> list[forms.BoundField]:
        """The lists of tools that have entries."""
        return [self[name] for name in LISTS if self.fields[name].choices]  # type: ignore[attr-defined]

    @property
    def more(self) -> list[forms.BoundField]:
        return [self[name] for name in MORE if name in self.fields]

    @property
    def has_errors_in_more(self) -> bool:
        return not self.errors.keys().isdisjoint(MORE)

    @property
    def is_operator(self) -> bool:
        return self.user.has_perm("agents.change_agent")

    def set_initial(self, content: JSON) -> None:
        super().set_initial(content)
        self.initial["servers"] = [server["url"] for server in content["mcp_servers"]]
        skills = content["skills"]
        self.initial["starters"] = "\n".join(skills[0]["examples"][:MAX_STARTERS]) if skills else ""

    def set_choices(self) -> None:
        super().set_choices()
        shared = {one.url: f"{one.name}: {one.description}".removesuffix(": ") for one in _shared_servers()}
        self.offer("servers", shared)
        own = self.initial.get("model", "")
        names = [name for name in (own, *offered_models(everything=self.is_operator)) if name]
        choices = [("", "The default model"), *((name, name) for name in dict.fromkeys(names))]
        self.fields["model"].choices = choices  # type: ignore[attr-defined]
        self.fields["access"].choices = [(one, ACCESS_WORDS[one]) for one in self._offered_access()]  # type: ignore[attr-defined]
        groups: Any = self.fields["groups"]
        groups.queryset = groups.queryset if self.is_operator else self.user.groups.order_by("name")

    def label_of(self, tool: RegisteredTool) -> str:
        return f"{tool.name.replace('_', ' ').capitalize()}: {tool.summary}"

    def _offered_access(self) -> list[str]:
        """Operators alone share an agent with people of other workspaces whom no group names."""
        own = self.instance.access if self.instance.pk else Agent.Access.OWNER
        offered = {own, Agent.Access.OWNER} if self.instance.owner_id or not self.instance.pk else {own}
        if (self.instance.workspace if self.instance.pk else self.user.membership.workspace).personal_of_id is None:
            offered.add(Agent.Access.WORKSPACE)
        if self.is_operator or self.user.groups.exists():
            offered.add(Agent.Access.GROUPS)
        if self.is_operator:
            offered.add(Agent.Access.AUTHENTICATED)
        return [one for one in ACCESS_WORDS if one in offered]

    def tool_modules(self) -> list[str]:
        people: list[str] = settings.PEOPLE_TOOLS
        return all_tool_modules() if self.is_operator else people

    def usable_agents(self) -> Any:
        return Agent.objects.visible_to(self.principal).listed()

    def clean_slug(self) -> str:
        slug: str = self.cleaned_data["slug"]
        if slug in PAGE_NAMES or slug.startswith(DRAFT_PREFIX):
            raise ValidationError("Parley's own pages use this name. Choose another.")
        return slug or free_slug(self.cleaned_data.get("name", ""))

    def clean_description(self) -> str:
        return self.cleaned_data["description"] or f"The agent {self.cleaned_data.get('name', '')}."

    def clean_drawing(self) -> bytes | None:
        """The picture as Parley draws it."""
        given: UploadedFile[Any] | None = self.cleaned_data["drawing"]
        return self.drawn or (pictures.draw(given) if given else None)

    def clean_starters(self) -> list[str]:
        lines = [line.strip() for line in self.cleaned_data["starters"].splitlines()]
        starters = list(dict.fromkeys(line for line in lines if line))
        if len(starters) > MAX_STARTERS:
            raise ValidationError(f"Write at most {MAX_STARTERS} questions.")
        return starters

    def clean(self) -> JSON:
        cleaned = super().clean()
        if cleaned.get("access") == Agent.Access.GROUPS and not cleaned.get("groups"):
            self.add_error("groups", "Choose at least one group.")
        if "minutes" in cleaned:
            self.instance.time_limit = seconds_of(cleaned["minutes"])
        return cleaned

    def content_of(self, cleaned: JSON) -> JSON:
        before = self.instance.current_version.content if self.instance.current_version else {}
        headers = {one.url: one.header for one in _shared_servers()}
        known = {server["url"]: server for server in before.get("mcp_servers", [])}
        servers = [known.get(url) or {"url": url, "header": headers[url]} for url in cleaned["servers"]]
        skills = self._skills(before, cleaned)
        return {**before, **super().content_of(cleaned), "mcp_servers": servers, "skills": skills}

    @staticmethod
    def _skills(before: JSON, cleaned: JSON) -> list[JSON]:
        """The starters are the examples of the first skill, which is the general one unless admin's form has others."""
        starters: list[str] = cleaned["starters"]
        first, *others = before.get("skills") or [None]
        if others or (first and first["name"] != before["name"]):
            return [{**first, "examples": starters}, *others]
        general = {"name": cleaned["name"], "description": cleaned["description"], "examples": starters}
        return [general] if starters else []

    def save_definition(self, author: User) -> AgentVersion:
        """Also saves groups and the picture, and forgets secrets for servers that it has no more.

        Of a candidate only the definition.
        """
        if self.is_candidate:
            return super().save_definition(author)
        self.save(commit=False)
        version = super().save_definition(author)
        self.save_m2m()
        self.instance.tool_secrets.exclude(url__in=self.cleaned_data["servers"]).delete()
        drawn = self.cleaned_data["drawing"]
        if drawn or self.cleaned_data.get("without_drawing"):
            pictures.keep(self.instance, drawn)
        return version


def _shared_servers() -> list[SharedToolServer]:
    return list(SharedToolServer.objects.all())


def free_slug(name: str) -> str:
    """A slug like the name that no agent has."""
    wished = (slugify(name) or "agent").strip("-_").replace("_", "-")[:55].strip("-") or "agent"
    taken = set(Agent.objects.filter(slug__startswith=wished).values_list("slug", flat=True)) | PAGE_NAMES
    numbered = (f"{wished}-{number}" for number in range(2, len(taken) + 3))
    return next(one for one in (wished, *numbered) if one not in taken)
