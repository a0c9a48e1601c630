"""Parley's settings: one code base, two profiles, chosen by the URLs of the environment (`.env.example` lists them)."""

from urllib.parse import urlsplit

from django.conf import global_settings
from whitenoise.compress import Compressor

from parley import outbound
from parley.environment import (
    ASSETS,
    HOME,
    broker_options,
    choice,
    chosen_apps,
    data_dir,
    database,
    database_url,
    env,
    mailers,
    metrics_networks,
    oidc_provider,
    package_folder,
    public_base_url,
    read_file,
    secret,
    service_url,
    share_metrics,
)
from parley.serving import middleware
from parley.telemetry.logs import logging_config
from parley.theme import THEME

read_file(HOME / ".env")
DEBUG = env.bool("DEBUG", default=False)
DATA_DIR = data_dir()
HOST = env.str("HOST", default="127.0.0.1")
PORT = env.int("PORT", default=8000)
FORWARDED_ALLOW_IPS = env.str("FORWARDED_ALLOW_IPS", default="")  # of reverse proxies; uvicorn reads it too
PUBLIC_BASE_URL = public_base_url(default=f"http://{HOST}:{PORT}")
IS_HTTPS = PUBLIC_BASE_URL.startswith("https://")
ALLOW_PLAIN_HTTP = env.bool("ALLOW_PLAIN_HTTP", default=False)  # for others than this machine, on services

INSTALLATION = env.str("INSTALLATION", default="parley")  # separates installations that share a broker or Redis
DATABASE_URL = database_url(DATA_DIR)
EMBEDDED = DATABASE_URL.startswith("sqlite")
ALLOWED_HOSTS = env.list(
    "ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]", HOST, urlsplit(PUBLIC_BASE_URL).hostname or HOST]
)
CSRF_TRUSTED_ORIGINS = [PUBLIC_BASE_URL]
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = IS_HTTPS
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
# Browsers accept a __Host- cookie only from this host, by https: no neighboring name can plant one.
SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = (
    ("__Host-sessionid", "__Host-csrftoken") if IS_HTTPS else ("sessionid", "csrftoken")
)
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if IS_HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = IS_HTTPS and env.bool("HSTS_SUBDOMAINS", default=True)
# Without a proxy that says how the caller came, a redirect to https would lead to itself.
SECURE_SSL_REDIRECT = IS_HTTPS and bool(FORWARDED_ALLOW_IPS)
SILENCED_SYSTEM_CHECKS = ["security.W021"]  # browsers' preload lists are the domain owner's choice
SECURE_CSP = middleware.PAGES_POLICY
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

INSTALLED_APPS, LEFT_OUT = chosen_apps([  # what they add comes in this order (`parley.registry`)
    "parley",
    "unfold",
    "unfold.contrib.filters",
    "parley.apps.AdminConfig",  # Django's admin
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "parley.serving.static_files.StaticFiles",
    "channels",
    "django_htmx",
    "allauth",
    "allauth.account",
    "allauth.idp.oidc",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.usersessions",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "apps.accounts",
    "apps.installation",
    "apps.agents",
    "apps.limits",
    "apps.record",
    "apps.engine",
    "apps.analytics",
    "apps.optional.archive",
    "apps.budgets",
    "apps.credentials",
    "apps.conversations.forks",
    "apps.optional.evaluations",
    "apps.optional.signing",  # its addresses in the client API before the shorter ones of conversations
    "apps.conversations",
    "apps.health",
    "apps.housekeeping",
    "apps.model_agents",
    "apps.notifications",
    "apps.payments",
    "apps.conversations.provenance",
    "apps.conversations.queue",
    "apps.routing",
    "apps.conversations.search",
    "apps.conversations.sessions",
    "apps.conversations.public_links",
    "apps.conversations.uploads",
    "apps.optional.knowledge",
    "apps.optional.memory",
    "apps.optional.projects",
    "apps.optional.guardrails",
    "apps.remote",
    "apps.deployments",
    "apps.optional.federation",
    "apps.plans",
    "apps.automation",
    "apps.optional.transfers",
    "examples",
    "apps.a2a",
    "apps.api",
    "apps.doors",
    "apps.optional.prompts",
    "apps.optional.openai",
    "apps.optional.mcp",
    "apps.optional.agui",
    "apps.optional.langgraph",
    "apps.optional.voice",
    "apps.optional.comparing",
    "apps.optional.channels",
    "apps.optional.channels.slack",
    "apps.optional.channels.telegram",
    "apps.optional.channels.mail",
    "apps.optional.channels.discord",
    "apps.optional.channels.teams",
    "apps.web",
    "apps.operators",
    "apps.optional.backup",
])  # fmt: skip
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "parley.serving.middleware.CSPMiddleware",
    "parley.serving.middleware.CompressPages",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "parley.serving.middleware.try_other_form",
    "apps.accounts.audit.remember_request",
    "apps.accounts.people.sign_in.require_second_factor",
    "apps.web.roles.require_role",
    "parley.serving.middleware.note_page_route",
    "parley.serving.middleware.run_in_one_thread",  # the last
]
APPEND_SLASH = False  # `try_other_form` does it, in both directions and for all methods
ROOT_URLCONF = "parley.urls"
ASGI_APPLICATION = "parley.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ASSETS / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": ["apps.web.templatetags.clock"],
            "context_processors": [
                "django.template.context_processors.csp",
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

# The record
BRIDGE_THREADS = 6  # per process, each with a connection
CACHES = {  # for counts of sign-ins: in the database, so that all processes see them and no other service must run
    "default": {
        "BACKEND": "django.core.cache.backends.db.DatabaseCache",
        "LOCATION": "cache",
        "OPTIONS": {"MAX_ENTRIES": 100_000},
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CHANNEL_LAYER_URL = service_url("CHANNEL_LAYER_URL", "redis://", "rediss://")  # of notifications; Channels needs none
INLINE_PART_BYTES = 256 * 1024  # larger parts go to file storage
UNUSED_FILE_SECONDS = 3600.0  # before an unused file is deleted: somebody may be about to use it
COLD_AFTER_DAYS = 30  # until an archived session goes into cold storage; workspaces may differ
KEEP_HOUSE_SECONDS = 600.0  # between runs of slow periodic jobs
FEED_POLL_SECONDS = 2.0  # in case a notification is lost
SYNC_DAYS = 30  # for which clients can sync changes
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": DATA_DIR / "files"}},
    "staticfiles": {"BACKEND": "parley.serving.static_files.ModuleStorage"},
}
WHITENOISE_SKIP_COMPRESS_EXTENSIONS = (*Compressor.SKIP_COMPRESS_EXTENSIONS, "map")

# Calling out
REMOTE_PICTURES = env.bool("REMOTE_PICTURES", default=True)  # of agents' Markdown, fetched when a reader asks
OUTBOUND_ALLOW = env.list("OUTBOUND_ALLOW", default=[])  # private networks and hosts

PAYMENTS_FACILITATOR = env.str("PAYMENTS_FACILITATOR", default="").rstrip("/")  # of x402; empty: no payments
PAYMENT_WALLETS = env.dict("PAYMENT_WALLETS", default={})  # by name: a URL, or a dotted path (see `payments.wallets`)
PAYMENT_SECONDS = 30.0  # for each answer of the facilitator, and of a wallet

SLACK_API_URL = env.str("SLACK_API_URL", default="https://slack.com/api").rstrip("/")  # GovSlack has another

WEBHOOK_SECONDS = 10.0  # timeout of one call
WEBHOOK_WAIT_SECONDS = (5.0, 3600.0)  # between failing calls: first (it doubles) and longest wait
WEBHOOK_GIVE_UP_SECONDS = 24 * 3600.0  # since it was queued
DELIVERIES_KEPT_DAYS = 30  # for operators

# Notifications of people, by mail, browser, webhook or Slack; retries are those of webhooks
NOTIFY_WAIT_SECONDS = env.float("NOTIFY_WAIT_SECONDS", default=60.0)  # before people are told: they may be there
VAPID_CONTACT = env.str("VAPID_CONTACT", default="")  # mailto: or https:, for browsers' push services

# Language models: any endpoint that speaks OpenAI's chat completions API
LLM_MODEL = env.str("LLM_MODEL", default="")  # default model
LLM_MODELS = env.list("LLM_MODELS", default=[])  # other choices; "*": any
LLM_BASE_URL = env.str("LLM_BASE_URL", default="").rstrip("/")  # default: OpenAI
LLM_API_KEY = env.str("LLM_API_KEY", default="")
CURRENCY = env.str("CURRENCY", default="USD")  # of prices and costs, as people read it
EMBEDDING_MODEL = env.str("EMBEDDING_MODEL", default="")  # ranks agents, searches knowledge; empty: by words
EMBEDDING_SECONDS = 5.0  # timeout
MODEL_TITLES = env.bool("MODEL_TITLES", default=True)  # let the default model name sessions
TRANSCRIPTION_MODEL = env.str(
    "TRANSCRIPTION_MODEL", default=""
)  # writes down what is said; empty: the first that is known
SPEECH_MODEL = env.str("SPEECH_MODEL", default="")  # reads aloud; "off": none
SPEECH_VOICE = env.str("SPEECH_VOICE", default="alloy")
LLM_SECONDS = 120.0  # without data, before a call times out
MCP_STDIO_ALLOW = env.list("MCP_STDIO_ALLOW", default=[])  # command lines of tool servers
MCP_APPS_ALLOW = env.list("MCP_APPS_ALLOW", default=["*"])  # tool servers whose pages are shown

# Running agents
RUN_LEASE_SECONDS = env.float("RUN_LEASE_SECONDS", default=30.0)
RUNS_PER_PROCESS = 200  # concurrent runs of a worker process
ANSWER_SECONDS = 30.0  # timeout of an answer with a message instead of a task
SELECT_SECONDS = 5.0  # timeout of the choice between a message and a task
HANDLER_THREADS = 32  # per worker process, for sync handlers
DELEGATION_DEPTH = 8  # levels of agents that call each other
CHILDREN_PER_TASK = 1_000  # calls of one task
BLOCKED_SECONDS = 5.0  # of an async handler, on the event loop
MAX_ARTIFACT_BYTES = 50 * 1024**2  # of one artifact of an agent
MAX_TURN_BYTES = 200 * 1024**2  # of all artifacts of one turn
MAX_SAYING_BYTES = 1024**2  # of progress, a tool's result, a question, or memory
AGENT_TOOLS = [
    "apps.model_agents.tools",
    *env.list("AGENT_TOOLS", default=[]),
]  # modules of tools for agents without code
PEOPLE_TOOLS = env.list("PEOPLE_TOOLS", default=[AGENT_TOOLS[0]])  # those whose tools people give their own agents
WORKSPACE_AGENTS = env.int("WORKSPACE_AGENTS", default=50)  # that members make in one workspace
DEFAULT_AGENT = "assistant"  # answers messages that name no agent
ROUTER_AGENT = "router"  # answers them if there is no such agent
CREDENTIAL_REQUEST_SECONDS = 3600.0  # validity of a link
SWEEP_SECONDS = 5.0  # between sweeps for lost messages and crashed runs

OBSERVE_SECONDS = 30.0  # between measurements and health checks of agents

# Remote agents
REMOTE_RUNS_PER_PROCESS = 2_000  # concurrent turns of remote agents, besides others
REMOTE_HISTORY_MESSAGES = 10  # of a session, that a new agent gets
REMOTE_INLINE_BYTES = 1024**2  # of a file; a larger one is sent as a link
AGUI_CANCEL_ON_LEAVE = env.bool("AGUI_CANCEL_ON_LEAVE", default=False)  # does a front end that leaves stop its run?
AGUI_ORIGINS = env.list("AGUI_ORIGINS", default=[])  # of front ends whose pages call /agui from another origin
LANGGRAPH_ORIGINS = env.list("LANGGRAPH_ORIGINS", default=[])  # of those whose pages call /langgraph
FILE_LINK_SECONDS = 24 * 3600  # validity of links to files in answers of other protocols
MCP_WAIT_SECONDS = 45.0  # of a tool's call, before it names the task that goes on; many clients wait a minute
REMOTE_LINK_SECONDS = 24 * 3600.0  # validity of such a link
REMOTE_RETRY_SECONDS = 10.0  # of retries of an unsent message
REMOTE_REFUSED_SECONDS = 2.0  # the same, where nobody listens and the agent is not declared to be safe to retry
REMOTE_AWAY_SECONDS = 600.0  # unreachable, before its turn fails
REMOTE_CONFIRM_SECONDS = 15.0  # until a stream and GetTask must agree
REMOTE_POLL_SECONDS = (0.2, 600.0)  # between polls of a task: first (it grows by half) and longest wait
REMOTE_PATIENCE_SECONDS = 60.0  # without news before the agent is asked to call back
REMOTE_BACKSTOP_SECONDS = 600.0  # between polls of a task whose agent calls back
REMOTE_CANCEL_SECONDS = 10.0  # timeout of forwarding a cancel, which is retried for a day
REMOTE_REFRESH_SECONDS = 900.0  # between refreshes of an agent's card, about
TRUSTED_KEY_SETS = env.list("TRUSTED_KEY_SETS", default=[])  # URLs of JWKS trusted for all cards
REQUIRE_TRUSTED_CARDS = env.bool("REQUIRE_TRUSTED_CARDS", default=False)  # refuse unsigned and unverified ones
REMOTE_CONNECT_SECONDS = 5.0  # connect timeout
REMOTE_IDLE_SECONDS = 60.0  # without data, and for one whole answer or event
REMOTE_CONNECTIONS = 250  # per worker process and origin
REMOTE_ANSWER_BYTES = outbound.MOST_BYTES  # of one answer, or of one event of a stream
REMOTE_STREAM_BYTES = 256 * 1024**2  # of all that comes in one stream
REMOTE_ANSWER_VALUES = 200_000  # of JSON in one answer or event, to bound memory
REMOTE_CHECK_SECONDS = env.float("REMOTE_CHECK_SECONDS", default=60.0)  # between health checks, about
REMOTE_CHECK_TIMEOUT = 10.0  # seconds for its card
REMOTE_PROBE_SECONDS = 900.0  # between probes by message
REMOTE_PROBE_TIMEOUT = 30.0  # seconds for the answer
REMOTE_SLOW_SECONDS = 5.0  # median check time above which an agent is degraded
REMOTE_BREAKER_FAILURES = 5  # consecutive failures, not the caller's fault, that open the circuit breaker
REMOTE_BREAKER_WINDOW_SECONDS = 300.0  # within which they fail
REMOTE_BREAKER_SECONDS = (30.0, 600.0)  # until the next try: first (it doubles) and longest wait

# Celery: its messages name a run and nothing more; https://docs.celeryq.dev/en/stable/userguide/configuration.html
CELERY_BROKER_URL = service_url(
    "CELERY_BROKER_URL", "amqp://", "amqps://", "pyamqp://", "redis://", "rediss://", "sentinel://"
)
CELERY_BROKER_TRANSPORT_OPTIONS = broker_options(CELERY_BROKER_URL)
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_DEFAULT_QUEUE = INSTALLATION
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 2, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.5}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_WORKER_POOL = "threads"
CELERY_WORKER_CONCURRENCY = 8
CELERY_WORKER_PREFETCH_MULTIPLIER = 4
CELERY_WORKER_ENABLE_PREFETCH_COUNT_REDUCTION = False  # its way back, after a reconnect, has hung the worker
CELERY_WORKER_REDIRECT_STDOUTS = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_BEAT_SCHEDULER = "apps.housekeeping.heartbeats:BeatScheduler"  # in memory: intervals are short
CELERY_BEAT_MAX_LOOP_INTERVAL = 5

# Limits of requests
MAX_REQUEST_BYTES = 20 * 1024 * 1024  # of a body; larger ones get 413
DATA_UPLOAD_MAX_MEMORY_SIZE = MAX_REQUEST_BYTES
ANONYMOUS_REQUEST_BYTES = 64 * 1024  # of a body from somebody without credentials, or signed out
MAX_UPLOAD_BYTES = env.int("MAX_UPLOAD_BYTES", default=200 * 1024 * 1024)  # of one file
MAX_UPLOADED_BYTES = 2 * 1024**3  # unexpired, of one person
MAX_OPEN_UPLOADS = 20  # unfinished, of one person
UPLOAD_SECONDS = 24 * 3600.0  # how long an upload is kept
UPLOADS_DIR = DATA_DIR / "uploads"  # of unfinished files; on the file system of the stored files
MAX_JSON_DEPTH = 64
MAX_JSON_VALUES = env.int("MAX_JSON_VALUES", default=50_000)  # of one body: items of lists, fields, lists and objects
MAX_DATA_BYTES = env.int("MAX_DATA_BYTES", default=1024 * 1024)  # of one data part, as JSON
MAX_NUMBER_DIGITS = 400
MAX_PARTS = 100  # of one message
MAX_ID_LENGTH = 200
MAX_WEBHOOKS = 10  # of one task
DEFAULT_HISTORY_LENGTH = 100
REQUESTS_PER_MINUTE = env.int("REQUESTS_PER_MINUTE", default=60_000)  # of one known caller, by A2A
ANONYMOUS_REQUESTS_PER_MINUTE = 6_000  # of all anonymous callers of one address
ACTS_PER_MINUTE = env.int("ACTS_PER_MINUTE", default=120)  # starts of work of one caller
FORKS_PER_MINUTE = env.int("FORKS_PER_MINUTE", default=120)  # forks, retries and edits of one caller
KEY_CHANGES_PER_MINUTE = 20  # API keys that one person makes or revokes
LEAK_REPORTS_PER_MINUTE = 30  # of leaked API keys, from one address
API_KEY_DAYS = env.int("API_KEY_DAYS", default=90)  # usual lifetime of new API keys; 0: for ever
SCHEDULE_MIN_SECONDS = env.int("SCHEDULE_MIN_SECONDS", default=60)  # between two runs of a schedule
SCHEDULES_PER_PERSON = 100  # in one workspace
INCOMING_WEBHOOKS_PER_PERSON = 100  # in one workspace
INCOMING_EVENTS_PER_MINUTE = env.int("INCOMING_EVENTS_PER_MINUTE", default=120)  # of one incoming webhook
INCOMING_EVENT_BYTES = env.int("INCOMING_EVENT_BYTES", default=256 * 1024)  # larger ones get 413
INCOMING_EVENT_DAYS = env.int("INCOMING_EVENT_DAYS", default=30)  # for which events are shown
INCOMING_EVENTS_KEPT = 1_000  # the newest of one webhook
SCHEDULE_RUN_DAYS = max(1, env.int("SCHEDULE_RUN_DAYS", default=90))  # how long the history of runs is kept
SCHEDULE_RUNS_KEPT = max(1, env.int("SCHEDULE_RUNS_KEPT", default=500))  # of one schedule
EXPORT_DAYS = max(1, env.int("EXPORT_DAYS", default=7))  # how long the archive of an account is kept
SHARED_VIEWS_PER_MINUTE = 120  # of shared links, from one address
WORKSPACE_LIMITS = {  # of workspaces for which operators set none; 0: not limited
    "requests_per_minute": env.int("WORKSPACE_REQUESTS_PER_MINUTE", default=0),
    "running_runs": env.int("WORKSPACE_RUNNING_RUNS", default=0),
    "queued_runs": env.int("WORKSPACE_QUEUED_RUNS", default=0),
    "open_streams": env.int("WORKSPACE_OPEN_STREAMS", default=0),
    "storage_bytes": env.int("WORKSPACE_STORAGE_BYTES", default=0),
}
CONNECTIONS_PER_ADDRESS = env.int("CONNECTIONS_PER_ADDRESS", default=1_000)  # open in one process; 0: any number
STREAMS_PER_CALLER = env.int("STREAMS_PER_CALLER", default=500)  # open at the same time in one process

MAX_SUMMARY_LENGTH = 10_000  # characters, in negotiation

# The client API: https://www.django-rest-framework.org/api-guide/settings/
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "apps.accounts.requests.authentication.ApiKeyAuthentication",
        "apps.accounts.requests.authentication.CookieAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["apps.api.framework.policies.InScope"],
    "DEFAULT_PARSER_CLASSES": ["apps.api.framework.policies.StrictJSON"],
    "DEFAULT_RENDERER_CLASSES": ["apps.api.framework.policies.PlainJSON"],
    "DEFAULT_SCHEMA_CLASS": "apps.api.framework.schema.Operations",
    "DEFAULT_METADATA_CLASS": None,  # no OPTIONS: there is a schema
    "URL_FORMAT_OVERRIDE": None,
    "NON_FIELD_ERRORS_KEY": "",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Parley client API",
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",  # whose schemas are JSON Schema
    "DESCRIPTION": "The API for Parley's clients: agents, sessions, messages, tasks, artifacts, plans and live events.",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "PREPROCESSING_HOOKS": ["apps.api.framework.schema.without_trailing_slashes"],
    "ENUM_NAME_OVERRIDES": {
        "AgentKind": "apps.agents.models.Agent.Kind",
        "AgentAccess": "apps.agents.models.Agent.Access",
        "DeploymentAccess": "apps.deployments.models.ACCESS",
        "DeploymentState": "apps.deployments.models.Deployment.State",
        "HealthStatus": "apps.agents.models.Agent.Health",
        "MessageRole": "apps.record.models.Message.Role",
        "WorkspaceRole": "apps.accounts.permissions.Role",
        "RunState": "apps.record.execution.Run.State",
        "TaskState": "apps.record.models.TaskState",
        "PlanStepPhase": "apps.plans.models.Step.Phase",
        "PlanStepState": "apps.plans.models.Step.State",
        "TypeEnum": "apps.record.events.EventType",
        "NotificationKind": "apps.notifications.models.Kind",
        "NotificationState": "apps.notifications.models.Notification.State",
        "NotificationChannelType": "apps.notifications.models.every_type",
        "NotificationDigest": "apps.notifications.models.Channel.Digest",
        "ScheduleKind": "apps.automation.models.Schedule.Kind",
        **({} if "transfers" in LEFT_OUT else {"ExportState": "apps.optional.transfers.models.Export.State"}),
        **(
            {}
            if "guardrails" in LEFT_OUT
            else {"GuardrailDirection": "apps.optional.guardrails.models.Guardrail.Direction"}
        ),
        "ScheduledRunState": "apps.automation.models.ScheduledRun.State",
        "IncomingWebhookScheme": "apps.accounts.secrets.webhook_signatures.CHOICES",
        "WebhookSignatureAlgorithm": "apps.accounts.secrets.webhook_signatures.ALGORITHMS",
        "WebhookSignatureEncoding": "apps.accounts.secrets.webhook_signatures.ENCODINGS",
        "IncomingEventState": "apps.automation.models.IncomingEvent.State",
    },
}

# A2A
CARDS_FOR_OLD_CLIENTS = env.bool("CARDS_FOR_OLD_CLIENTS", default=True)  # whether agent-card.json serves 0.3 too
A2A_PREVIEW = env.bool("A2A_PREVIEW", default=False)  # whether A2A 1.1, which is a draft, is served
A2A_POLL_SECONDS = 25.0  # the longest wait of a GetTask with `currentGeneration`

# A2A extensions of our own
EXTENSION_PAGES = ASSETS / "docs" / "extensions"  # <name>-v<version>.md is served at /ext/<name>/v<version>
MANUAL_PAGES = ASSETS / "docs" / "running"  # served to operators at /admin/manual/

# People
AUTH_USER_MODEL = "accounts.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
PASSWORD_RESET_TIMEOUT = 3 * 24 * 3600  # seconds, of a link to sign in; others: apps.accounts.people.links
PASSWORD_HASHERS = [*global_settings.PASSWORD_HASHERS, "apps.accounts.clients.oauth.RandomSecretHasher"]
AUTHENTICATION_BACKENDS = ["apps.accounts.people.backend.Backend"]
LOGIN_URL = "web:sign-in"
LOGIN_REDIRECT_URL = "web:home"
LOGOUT_REDIRECT_URL = "web:sign-in"
# OAuth 2.1 and OpenID Connect for programs: https://docs.allauth.org/en/latest/idp/openid-connect
OAUTH_ENABLED = env.bool("OAUTH_ENABLED", default=True)
IDP_OIDC_ADAPTER = "apps.accounts.clients.oauth.Adapter"
IDP_OIDC_REFRESH_TOKEN_EXPIRES_IN = 30 * 24 * 3600  # seconds, from its last use
OIDC_PRIVATE_KEY = env.str("OIDC_PRIVATE_KEY", default="", multiline=True)  # RSA, in PEM; empty: made in DATA_DIR
OAUTH_OPEN_REGISTRATION = env.bool("OAUTH_OPEN_REGISTRATION", default=True)  # programs may register themselves
OAUTH_MOST_OPEN_CLIENTS = 1000  # programs that registered themselves
OAUTH_REGISTRATIONS_PER_MINUTE = 10  # from one address
OAUTH_REQUESTS_PER_MINUTE = 120  # of tokens and device codes, from one address
OAUTH_FAILURES_PER_MINUTE = 10  # wrong secrets, codes and refresh tokens of one client, from one address

# Signing in: https://docs.allauth.org
ACCOUNT_ADAPTER = "apps.accounts.people.sign_in.Adapter"
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"  # a link that was sent there made the account
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_REAUTHENTICATION_METHODS = ["password", "mfa"]
ACCOUNT_RATE_LIMITS = {
    "login": "100/m/ip",
    "login_failed": "10/10m/key",  # codes and passkeys of one person
    "wrong_passwords_of_account": "10/10m/key",
    "wrong_passwords_of_known_browser": "10/10m/key",  # and account
    "wrong_passwords_of_address": "50/10m/key",
    "wrong_password_of_many": "20/10m/key",  # the same password, at any account
    "wrong_passwords": "1000/10m/key",  # in all
}
SIGN_UP_DOMAINS = env.list("SIGN_UP_DOMAINS", default=[])  # of addresses that make accounts by themselves; "*": all
# Signing in at another server, by OpenID Connect; its redirect address is /sign-in/with/oidc/login/callback/
OIDC_URL = env.str("OIDC_URL", default="").rstrip("/")
OIDC_NAME = env.str("OIDC_NAME", default="single sign-on")
OIDC_CLIENT_ID = env.str("OIDC_CLIENT_ID", default="")
OIDC_CLIENT_SECRET = env.str("OIDC_CLIENT_SECRET", default="")
OIDC_SIGN_UP = env.bool("OIDC_SIGN_UP", default=False)  # make accounts for all whom that server knows
SOCIALACCOUNT_ADAPTER = "apps.accounts.people.single_sign_on.Adapter"
SOCIALACCOUNT_PROVIDERS = oidc_provider(OIDC_URL, OIDC_NAME, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET)
SOCIALACCOUNT_STORE_TOKENS = False
SOCIALACCOUNT_LOGIN_ON_GET = True  # a form may not lead to another site (`form-action`)
SOCIALACCOUNT_OPENID_CONNECT_URL_PREFIX = "sign-in/with"
MFA_ADAPTER = "apps.accounts.people.sign_in.Secrets"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_FORMS = {"add_webauthn": "apps.accounts.pages.sign_in.PasskeyForm"}
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_ALLOW_UNVERIFIED_EMAIL = True  # addresses are verified before there is an account
MFA_TOTP_TOLERANCE = 1
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = urlsplit(PUBLIC_BASE_URL).scheme == "http"  # browsers allow it on this machine
MFA_FOR_OPERATORS = env.bool("MFA_FOR_OPERATORS", default=False)  # they cannot open admin without a second factor
ADMINS = env.list("ADMIN_EMAILS", default=[])
EMAIL_URL = env.str("EMAIL_URL", default="")  # smtp+tls://USER:PASSWORD@HOST:587
MAILERS = mailers(EMAIL_URL)
DEFAULT_FROM_EMAIL = SERVER_EMAIL = env.str("EMAIL_FROM", default="parley@localhost")

# Operators
METRICS_TOKEN = env.str("METRICS_TOKEN", default="")  # that scrapers of /metrics send
METRICS_ALLOW = metrics_networks()  # networks that may scrape without it
METRICS_PORT = env.int("METRICS_PORT", default=0)  # of workers and beat, at HOST; 0: none
share_metrics()
EXPECTED_WORKERS = env.int("EXPECTED_WORKERS", default=1)  # fewer are a warning
ALIVE_FILE = env.str("ALIVE_FILE", default="")  # that a worker or beat touches while it is not stuck
HEARTBEAT_URL = env.str("HEARTBEAT_URL", default="")  # called every minute by beat and a worker, while all works
BACKUP_HEARTBEAT_URL = env.str("BACKUP_HEARTBEAT_URL", default="")  # called after each backup
BACKUP_OLD_SECONDS = env.int("BACKUP_OLD_SECONDS", default=26 * 3600)  # a daily one has two hours to be made

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "/static/"
STATIC_ROOT = HOME / env.str("STATIC_ROOT", default=str(DATA_DIR / "static"))
STATICFILES_DIRS = [
    ASSETS / "static",
    ("mermaid", package_folder("artoo_mermaid") / "assets"),
    ("math", package_folder("ziamath") / "fonts"),
]
UNFOLD = THEME

# What operators see; traces have OpenTelemetry's own names (`parley.telemetry.tracing`)
LOGGING = logging_config(
    as_json=choice("LOG_FORMAT", env.str("LOG_FORMAT", default="console" if EMBEDDED else "json"), "json", "console")
    == "json",
    level=choice("LOG_LEVEL", env.str("LOG_LEVEL", default="INFO").upper(), "DEBUG", "INFO", "WARNING", "ERROR"),
    access=env.bool("LOG_ACCESS", default=not EMBEDDED),
    agent_output=env.bool("LOG_AGENT_OUTPUT", default=EMBEDDED),
    agent_errors=EMBEDDED,
    texts=DEBUG,
)
LOG_ACCESS_SAMPLE = env.float("LOG_ACCESS_SAMPLE", default=1.0)  # part of the fast, successful requests that is logged
SENTRY_DSN = env.str("SENTRY_DSN", default="")
SENTRY_ENVIRONMENT = env.str("SENTRY_ENVIRONMENT", default=INSTALLATION)

# What the first start makes, once all else could be read
SECRET_KEY = secret("SECRET_KEY", DATA_DIR, size=50, may_generate=DEBUG or EMBEDDED)
MASTER_KEY = secret("MASTER_KEY", DATA_DIR, size=32, may_generate=DEBUG or EMBEDDED)  # encrypts secrets at rest
DATABASES = {"default": database(DATABASE_URL, bridge_threads=BRIDGE_THREADS)}
