"""`./manage.py doctor`: examines a configuration from end to end, and says what to do about each problem."""

from apps.operators.doctor import configuration, connections, database, edge, page, sending
from apps.operators.doctor.examination import Check, Finding, Patient, State, examine

__all__ = ["CHECKS", "Check", "Finding", "Patient", "State", "examine"]

CHECKS = [
    Check("version", configuration.version),
    Check("SECRET_KEY", configuration.secret_key),
    Check("DEBUG", configuration.debug),
    Check("public address", configuration.public_address),
    Check("allowed hosts", configuration.hosts),
    Check("proxies", configuration.proxies),
    Check("profile", configuration.profile),
    Check("data folder", configuration.data_folder),
    Check("disk", configuration.disk),
    Check("static files", configuration.static_files),
    Check("database", database.database),
    Check("migrations", database.migrations, needs=["database"]),
    Check("database connections", database.connections_left, needs=["migrations"]),
    Check("database clock", database.database_clock, needs=["database"]),
    Check("stored secrets", database.stored_secrets, needs=["migrations"]),
    Check("broker", connections.broker),
    Check("channel layer", connections.channel_layer),
    Check("workers", database.workers, needs=["migrations"]),
    Check("beat", database.beat, needs=["migrations"]),
    Check("periodic jobs", database.periodic_jobs, needs=["migrations"]),
    Check("backups", database.backups, needs=["migrations"]),
    Check("queue", database.queue, needs=["migrations"]),
    Check("agents", database.agents, needs=["migrations"]),
    Check("authorities", configuration.authorities),
    Check("web server", edge.web_server, needs=["authorities"]),
    Check("certificate", edge.certificate, needs=["web server"]),
    Check("proxy headers", edge.proxy_headers, needs=["web server"]),
    Check("web clock", edge.web_clock, needs=["web server"]),
    Check("sign-in page", page.sign_in_page, needs=["web server"]),
    Check("page files", page.page_files, needs=["web server", "sign-in page"]),
    Check("agent card", edge.agent_card, needs=["web server"]),
    Check("streaming", edge.streaming, needs=["web server"]),
    Check("WebSockets", edge.websockets, needs=["web server"]),
    Check("send", sending.send, needs=["web server", "workers"], seconds=40.0),
    Check("e-mail", connections.mail_server),
    Check("letters to people", connections.letters, needs=["migrations"]),
    Check("language model", connections.language_model, needs=["migrations"], seconds=45.0),
    Check("outgoing calls", connections.outgoing_calls, needs=["migrations"]),
]
