"""`./manage.py doctor`: examines a configuration from end to end, and says what to do about each problem."""

from apps.agents.models import Agent
from apps.housekeeping.models import Backup, PeriodicJob, ServerProcess
from apps.installation.models import Activity, Operation
from apps.operators.doctor import agents, configuration, connections, database, edge, page, sending
from apps.operators.doctor.examination import Check, Finding, Patient, State, Watch, examine
from apps.record.execution import Run
from apps.remote.models import Checkup, RemoteAgent

__all__ = ["CHECKS", "Check", "Finding", "Patient", "State", "examine"]

PAUSES = "operating.md#pause-drain-and-resume"
NO_WORKER = Watch(ServerProcess, "runbooks/no-worker.md", PeriodicJob)

CHECKS = [
    Check("version", configuration.version),
    Check("SECRET_KEY", configuration.secret_key),
    Check("DEBUG", configuration.debug),
    Check("public address", configuration.public_address),
    Check("allowed hosts", configuration.hosts),
    Check("proxies", configuration.proxies),
    Check("profile", configuration.profile),
    Check("data folder", configuration.data_folder),
    Check("disk", configuration.disk, watch=Watch(ServerProcess, "runbooks/disk-full.md")),
    Check("static files", configuration.static_files),
    Check("database", database.database),
    Check("migrations", database.migrations, needs=["database"]),
    Check("database connections", database.connections_left, needs=["migrations"]),
    Check("database clock", database.database_clock, needs=["database"]),
    Check("stored secrets", database.stored_secrets, needs=["migrations"]),
    Check("vectors", database.vectors, needs=["database"]),
    Check("broker", connections.broker),
    Check("channel layer", connections.channel_layer),
    Check("workers", database.workers, needs=["migrations"], watch=NO_WORKER),
    Check("beat", database.beat, needs=["migrations"], watch=NO_WORKER),
    Check(
        "versions", database.versions_of_processes, needs=["migrations"],
        watch=Watch(ServerProcess, "upgrading.md", PeriodicJob),
    ),
    Check(
        "periodic jobs", database.periodic_jobs, needs=["migrations"],
        watch=Watch(PeriodicJob, "runbooks/jobs-fail.md", PeriodicJob),
    ),
    Check(
        "backups", database.backups, needs=["migrations"],
        watch=Watch(Backup, "runbooks/backup-old.md", Backup, states=[State.PROBLEM]),
    ),
    Check(
        "queue", database.queue, needs=["migrations"],
        watch=Watch(Run, "runbooks/queue-stuck.md", Run, {"state__exact": Run.State.QUEUED.value}),
    ),
    Check("agents", agents.killers, needs=["migrations"]),
    Check("all agents", agents.all_agents, needs=["migrations"], watch=Watch(Operation, PAUSES, Operation)),
    Check(
        "paused agents", agents.paused, needs=["migrations"],
        watch=Watch(Agent, PAUSES, Agent, {"activity__exact": Activity.PAUSED.value, "is_enabled__exact": 1}),
    ),
    Check(
        "remote agents", agents.remote, needs=["migrations"],
        watch=Watch(Checkup, "runbooks/remote-agent-down.md", Checkup, {"down": 1}),
    ),
    Check(
        "changed cards", agents.changed_cards, needs=["migrations"],
        watch=Watch(RemoteAgent, "runbooks/remote-agent-down.md", RemoteAgent, {"proposed__isempty": 0}),
    ),
    Check("confinement", agents.confined, needs=["migrations"]),
    Check("authorities", configuration.authorities),
    Check("web server", edge.web_server, needs=["authorities"]),
    Check("certificate", edge.certificate, needs=["web server"]),
    Check("proxy headers", edge.proxy_headers, needs=["web server"]),
    Check("web clock", edge.web_clock, needs=["web server"]),
    Check("sign-in page", page.sign_in_page, needs=["web server"]),
    Check("page files", page.page_files, needs=["web server", "sign-in page"]),
    Check("agent card", edge.agent_card, needs=["web server", "stored secrets"]),
    Check("streaming", edge.streaming, needs=["web server"]),
    Check("WebSockets", edge.websockets, needs=["web server", "sign-in page"]),
    Check("send", sending.send, needs=["web server", "workers"], seconds=40.0),
    Check("e-mail", connections.mail_server),
    Check("letters to people", connections.letters, needs=["migrations"]),
    Check("language model", connections.language_model, needs=["migrations"], seconds=45.0),
    Check("outgoing calls", connections.outgoing_calls, needs=["migrations"]),
]  # fmt: skip
