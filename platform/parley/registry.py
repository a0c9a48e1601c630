"""What apps add to the platform. Each says so in its `apps.py`; others call it without importing its modules."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.urls import URLResolver, include, path
from django.utils.module_loading import import_string, module_has_submodule

type Paths = Sequence[str]
type Kinds = Mapping[str, str]


class ParleyApp(AppConfig):
    """An app, named after its folder, and the paths of what it adds, from there. INSTALLED_APPS has their order.

    Its modules `api`, `pages`, `admin` and `urls` are found by their names.
    """

    default = False
    url_prefix = ""  # of what its module `urls` has

    # Functions of any number of apps: when they are called, and with what
    ledger_listeners: Paths = ()  # in the transaction of new events of a watched context: the context, the events
    answer_listeners: Paths = ()  # after the commit of an answer, a task's end or question: the context, the events
    send_obstacles: Paths = ()  # `limits.current.Finder`, called when limits are read: what refuses new messages
    usage_listeners: Paths = ()  # in the transaction that ends a run with usage: run's key, task, agent's key, usage
    model_obstacles: Paths = ()  # awaited before a model is asked: cost and tokens of this use; raises AgentFailure
    before_erasure: Paths = ()  # before contexts of one owner are deleted: their keys; returns stored parts to release
    context_inherited: Paths = ()  # when a fork inherits rows of an erased context: the context, the fork, last index
    files_released: Paths = ()  # after contexts were erased: their owner's key, the digests of their files
    before_cold: Paths = ()  # before a context is archived: the context
    cold_obstacles: Paths = ()  # before a context is archived: the context; returns why it must stay, or ""
    run_by_beat: Paths = ()  # those of `periodic_jobs` that compute so much that they would slow a worker's runs
    sweeps: Paths = ()  # with every sweep of the engine
    before_work: Paths = ()  # before the embedded worker takes work
    artifact_signers: Paths = ()  # when a signing agent delivers: the task, its artifacts, the input hashes of runs
    signature_verdicts: Paths = ()  # for pages: tasks; returns verdicts on remote signatures by (task, artifact id)
    version_panels: Paths = ()  # on the page of an agent's versions: request, agent, versions to compare; a SafeString
    artifact_notes: Paths = ()  # on an artifact's preview: request, context, artifact, if it is small; a SafeString
    turn_guards: Paths = ()  # awaited with agents and a workspace's key: a `turns.guards.Guard`, or None
    remote_completion_listeners: Paths = ()  # awaited after a remote task: its run, itself, its artifacts' ids
    data_parts: Paths = ()  # on the page of a person's data: the request; a SafeString
    personal_data: Paths = ()  # for a person's archive: the person; yields file names, words, JSON or stored parts
    account_erasers: Paths = ()  # before a person's rows are deleted: `accounts.people.erasure.Person`; raises Refusal
    account_remains: Paths = ()  # what stays of an erased person: the person; yields `accounts.people.erasure.Remains`
    after_account_erased: Paths = ()  # after the commit
    beginning_tools: Paths = ()  # beside the field for the first message of a session; a SafeString
    composer_tools: Paths = ()  # beside the field for messages; a SafeString. `data-module` is loaded when it is used
    message_acts: Paths = ()  # in the menu of answers: an `<option>` as SafeString (see `actions.js`)
    sidebar_sections: Paths = ()  # above people's recent sessions: the principal; a `web.shell.SidebarSection` or None
    session_trails: Paths = ()  # above the title of a session's page: the principal, the session; a SafeString
    session_acts: Paths = ()  # in the menu of a session's page: the principal, the session; a SafeString
    agent_figures: Paths = ()  # with an agent's numbers, for who may see them: the agent; a SafeString
    storage_meters: Paths = ()  # when the dashboard's storage is measured; returns name, bytes and number

    # A function of one app; without it, what needs it raises LeftOut
    admin_recorder = ""  # when admin's own history notes an act: what it notes; returns what records it
    restore_context = ""  # when a context in cold storage is used: its key
    discard_archive = ""  # when a context with a damaged archive is deleted: the context; returns its tasks' keys
    credential_link = ""  # when a turn ends: its outcome; returns the link if it asks for a credential
    credential_lender = ""  # when a handler asks for a credential: the assignment, the service
    payment_budgets = ""  # in the transaction in which a task asks for a payment: task, the event's index, its choices
    agent_socket = ""  # awaited before an agent is called: the agent; returns its Unix socket if it runs here, or ""
    agent_failure = ""  # awaited after such a call failed: the agent; returns why its process ended, or ""
    prompt_library = ""  # when a protocol lists or renders prompts: a `doors.prompts.Library`
    visible_projects = (
        ""  # for `record.projects`, and `visible_to` of what belongs to projects: the principal; a queryset
    )
    knowledge_search = ""  # awaited when a handler searches: who asks, agent's key, project's key, query, limit
    session_project = ""  # for `record.projects`: the principal, a project's key; a `SessionProject`, if they see it
    verify_archive = ""  # to check a file of cold storage: its name; returns what it says of itself

    # `record.briefings.Briefing` by names in a run's input: what agents are told beside messages
    turn_briefings: Kinds = {}

    # A function for each kind of agent
    executors: Kinds = {}  # for a turn: the assignment, the task's context, how to release its slot
    restorers: Kinds = {}  # to return to a version: the version, author, note; without one, no version can return
    definition_writers: Kinds = {}  # to show a version: its content; returns YAML
    examiners: Kinds = {}  # with health checks: the agent; returns why it cannot work, "" or an `Impairment`

    work_lists: Paths = ()  # `work.WorkList`: what waits in tables until a job does it
    channel_types: Paths = ()  # `notifications.channel_types.ChannelType`: services by which people are told
    chat_platforms: Paths = ()  # `optional.channels.platforms.Platform`: where people talk to agents, such as Slack
    project_file_listeners: Paths = ()  # in the transaction that changes a project's files: `ProjectFiles`
    turn_tools: Paths = ()  # of agents without code and the Assistant: the task's context; in a database thread
    project_parts: Paths = ()  # on the page of a project, above its files: the principal, its key; a SafeString
    agent_parts: Paths = ()  # on the page of an agent: the request, the agent; a SafeString
    tool_modules: Paths = ()  # with tools (`@tool()`) that operators may give to agents without code
    links: Mapping[str, tuple[str, str]] = {}  # in people's sidebar, by names of their addresses: label and icon
    analytics_sources: Paths = ()  # `analytics.counting.Source`: of the sums behind the dashboard
    periodic_jobs: Mapping[str, tuple[float | str, str]] = {}  # by the name of their Celery job: seconds, function

    def __init_subclass__(cls) -> None:
        cls.name, cls.default = cls.__module__.rpartition(".")[0], True


class LeftOut(ImproperlyConfigured):
    """Something is asked for that an app does which this installation leaves out."""


def app_urls(*, of_packages: bool) -> list[URLResolver]:
    """The addresses of Parley's apps that have a module `urls`, or of other packages'."""
    others = [app for app in parley_apps() if f"{app.name}.urls" != settings.ROOT_URLCONF]
    found = [app for app in others if module_has_submodule(app.module, "urls")]
    chosen = [app for app in found if app.name.startswith("apps.") is not of_packages]
    return [path(app.url_prefix, include(f"{app.name}.urls")) for app in chosen]


def tool_modules() -> list[str]:
    """The names of all apps' modules with tools."""
    return [f"{app.name}.{name}" for app in parley_apps() for name in app.tool_modules]


def sidebar_links() -> dict[str, tuple[str, str]]:
    """Label and icon of all apps' links, by the names of their addresses."""
    return {name: about for app in parley_apps() for name, about in app.links.items()}


def optional_labels() -> set[str]:
    """The labels of optional apps and those of packages, installed or left out."""
    core = re.compile(r"apps\.(?!optional\.)|parley\Z")
    installed = {app.label for app in parley_apps() if not core.match(app.name)}
    return installed | {AppConfig.create(path).label for path in settings.LEFT_OUT.values()}


def parley_apps() -> list[ParleyApp]:
    return [app for app in apps.get_app_configs() if isinstance(app, ParleyApp)]


class Added(dict[Any, Any]):
    """What apps add by a name: a tuple, a dictionary, or the one function. Raises LeftOut if no app has that.

    After a name the kind of agent may stand, so that no process imports what runs agents of other kinds; None if no
    app has that kind. `get` and `in` ask in the same way. A dictionary finds what it has without a call.
    """

    def __missing__(self, asked: Any) -> Any:
        found = self[asked] = _find(*asked) if isinstance(asked, tuple) else _find(asked)
        return found

    def get(self, asked: Any, default: Any = None) -> Any:
        """`default` if no app has that."""
        try:
            found = self[asked]
        except LeftOut:
            return default
        return default if found is None else found

    def __contains__(self, asked: object) -> bool:
        return self.get(asked) is not None


added = Added()


def _find(name: str, *kind: str) -> Any:
    stated = [(app, value) for app in parley_apps() if (value := getattr(app, name))]
    if kind:
        return next((_at(app, paths[kind[0]]) for app, paths in stated if kind[0] in paths), None)
    match getattr(ParleyApp, name):
        case str():
            if not stated:
                raise LeftOut(f"No app of this installation has {name}. Add the one that has it to PARLEY_APPS.")
            return _at(*stated[0])
        case dict():
            return {key: _at(app, one) for app, paths in stated for key, one in paths.items()}
    return tuple(_at(app, one) for app, paths in stated for one in paths)


def _at(app: AppConfig, stated: Any) -> Any:
    if isinstance(stated, tuple):
        seconds, function = stated
        return getattr(settings, seconds) if isinstance(seconds, str) else seconds, _at(app, function)
    return import_string(f"{app.name}.{stated}")
