"""The files of deploy/ and the pages of docs/running agree with the code and with one another."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings
from django.core.management import get_commands
from django.urls import resolve

from apps.engine.jobs import DRAIN_SECONDS
from tests.serving.test_environment import names_read
from tests.stack import ROOT, UVICORN

DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
SYSTEMD = DEPLOY / "systemd"
RUNNING = {path: path.read_text() for path in (ROOT / "docs/running").glob("*.md")}
ONE_MACHINE = (ROOT / "docs/running/one-machine.md").read_text()
DOCKERFILE = re.sub(r"^#.*\n", "", (DEPLOY / "docker/Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", "")
NOT_OURS = {
    "PATH",
    "HOME",
    "PYTHONPATH",
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
    "DJANGO_SETTINGS_MODULE",
    "PROMETHEUS_MULTIPROC_DIR",
}
OF_COMPOSE = {"PARLEY_HOST", "PARLEY_VERSION", "POSTGRES_PASSWORD", "WEB_REPLICAS", "WORKER_REPLICAS"}
RELEASE_SECONDS = 30  # that `WorkerProcess.close` waits beside DRAIN_SECONDS for runs to be given back
WORKER = "celery -A config worker --without-gossip --without-mingle"
BEAT = "celery -A config beat"


@cache
def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((DEPLOY / "compose.yaml").read_text()))


@cache
def manifests() -> list[dict[str, Any]]:
    files = [path for path in KUBERNETES.glob("*.yaml") if path.name != "kustomization.yaml"]
    return [document for path in files for document in yaml.safe_load_all(path.read_text())]


def kinds(*names: str) -> Iterator[dict[str, Any]]:
    return (document for document in manifests() if document["kind"] in names)


def pods() -> dict[str, dict[str, Any]]:
    """The pods' specifications by the name of their Deployment or Job."""
    return {
        document["metadata"]["name"]: document["spec"]["template"]["spec"] for document in kinds("Deployment", "Job")
    }


def unit(name: str) -> dict[str, list[str]]:
    """The values of a systemd unit by name, with those that all services share."""
    text = (SYSTEMD / name).read_text().replace("\\\n", "")
    if name.endswith(".service"):
        text += (SYSTEMD / "parley-.service.d/common.conf").read_text()
    values: dict[str, list[str]] = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE):
        values.setdefault(key, []).append(" ".join(value.split()))
    return values


def image_command() -> list[str]:
    (command,) = re.findall(r"^CMD (\[.+\])$", DOCKERFILE, re.MULTILINE)
    return list(json.loads(command))


def seconds(text: str) -> int:
    assert text.removesuffix("s").isdigit(), text
    return int(text.removesuffix("s"))


# Settings


def names_set() -> dict[str, set[str]]:
    heredoc = re.search(r"<<END\n(.*?)^END$", ONE_MACHINE, re.MULTILINE | re.DOTALL)
    assert heredoc
    maps = [set(document.get("data") or document["stringData"]) for document in kinds("ConfigMap", "Secret")]
    image = "".join(re.findall(r"^ENV .*$", DOCKERFILE.split("FROM")[-1], re.MULTILINE))
    return {
        "Dockerfile": set(re.findall(r"\b([A-Z_]+)=", image)),
        "compose.yaml": set(compose()["x-parley"]["environment"]),
        "env.example": set(re.findall(r"^([A-Z_]+)=", (DEPLOY / "env.example").read_text(), re.MULTILINE)) - OF_COMPOSE,
        "kubernetes": set().union(*maps),
        "one-machine.md": set(re.findall(r"^([A-Z_]+)=", heredoc[1], re.MULTILINE)),
        "systemd": set(re.findall(r"([A-Z_]+)=", " ".join(unit("parley-beat.service")["Environment"]))),
    }  # fmt: skip


def test_every_name_that_is_set_is_a_setting() -> None:
    strange = {place: names - names_read() - NOT_OURS for place, names in names_set().items()}
    assert {place: names for place, names in strange.items() if names} == {}


@pytest.mark.parametrize("place", ["compose.yaml", "kubernetes", "one-machine.md"])
def test_services_need_no_other_setting(place: str) -> None:
    names = names_set()[place] | (names_set()["env.example"] if place == "compose.yaml" else set())
    needed = {"DATABASE_URL", "CELERY_BROKER_URL", "CHANNEL_LAYER_URL", "SECRET_KEY", "MASTER_KEY", "PUBLIC_BASE_URL",
              "ALLOWED_HOSTS", "FORWARDED_ALLOW_IPS"}  # fmt: skip
    assert needed - names == set()


def test_compose_interpolates_only_what_its_example_names() -> None:
    used = set(re.findall(r"\$\{([A-Z_]+)", (DEPLOY / "compose.yaml").read_text()))
    named = set(re.findall(r"^([A-Z_]+)=", (DEPLOY / "env.example").read_text(), re.MULTILINE))
    assert used - named == {"PARLEY_VERSION"}


# Commands


def test_the_web_process_is_started_as_the_reference_recommends() -> None:
    image, service = image_command(), unit("parley-web@.service")["ExecStart"][0]
    assert image[:2] == ["uvicorn", "config.asgi:application"]
    assert image[-len(UVICORN) :] == UVICORN
    assert shlex.split(service)[-len(UVICORN) :] == UVICORN
    assert "command" not in compose()["services"]["web"]
    assert "command" not in pods()["web"]["containers"][0]


def test_workers_and_beat_are_started_the_same_everywhere() -> None:
    for name, command in (("worker", WORKER), ("beat", BEAT)):
        assert " ".join(compose()["services"][name]["command"]) == command
        assert " ".join(pods()[name]["containers"][0]["command"]) == command
    assert unit("parley-worker@.service")["ExecStart"] == [f"/opt/parley/bin/{WORKER}"]
    assert unit("parley-beat.service")["ExecStart"] == [f"/opt/parley/bin/{BEAT}"]


def test_every_command_of_parley_exists() -> None:
    shown = [block for text in RUNNING.values() for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)]
    texts = [*shown, (SYSTEMD / "parley-prepare.service").read_text(), DOCKERFILE]
    named = {name for text in texts for name in re.findall(r"(?:^|/|web |-- )parley ([a-z_]+)", text, re.MULTILINE)}
    named |= {
        command[1]
        for command in (compose()["services"]["migrate"]["command"], pods()["migrate"]["containers"][0]["command"])
    }
    assert {"prepare", "create_user", "serve"} <= named
    assert named - set(get_commands()) == set()


def test_beat_runs_once() -> None:
    (beat,) = (document for document in kinds("Deployment") if document["metadata"]["name"] == "beat")
    assert beat["spec"]["replicas"] == 1
    assert beat["spec"]["strategy"]["type"] == "Recreate"
    assert "deploy" not in compose()["services"]["beat"]


def test_everything_waits_longer_for_a_worker_than_the_worker_for_its_runs() -> None:
    patience = [
        seconds(compose()["services"]["worker"]["stop_grace_period"]),
        pods()["worker"]["terminationGracePeriodSeconds"],
        int(unit("parley-worker@.service")["TimeoutStopSec"][0]),
    ]
    assert all(limit > DRAIN_SECONDS + RELEASE_SECONDS for limit in patience)


# Ports, paths and sizes


def test_ports_of_containers_match() -> None:
    port = image_command()[image_command().index("--port") + 1]
    assert f"EXPOSE {port}" in DOCKERFILE
    assert f"127.0.0.1:{port}/healthz" in DOCKERFILE
    assert f"port {port}" in (DEPLOY / "caddy/Caddyfile").read_text()
    (web,) = pods()["web"]["containers"]
    assert [str(entry["containerPort"]) for entry in web["ports"]] == [port]


def test_ports_of_one_machine_match() -> None:
    (started,) = (
        set(re.findall(r"parley-web@(\d+)", line))
        for line in ONE_MACHINE.splitlines()
        if "enable --now parley.target" in line
    )
    nginx = set(re.findall(r"server 127\.0\.0\.1:(\d+)", (DEPLOY / "nginx/parley.conf").read_text()))
    caddy = set(re.findall(r"127\.0\.0\.1:(\d+)", (DEPLOY / "caddy/Caddyfile").read_text()))
    assert started == nginx == caddy


def test_probes_ask_existing_addresses() -> None:
    (web,) = pods()["web"]["containers"]
    asked = {web[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
    texts = [DOCKERFILE, ONE_MACHINE, (DEPLOY / "caddy/Caddyfile").read_text()]
    asked |= {path for text in texts for path in re.findall(r"(/(?:health|ready)\w*)", text)}
    assert asked == {"/healthz", "/readyz"}
    assert all(resolve(path) for path in asked)


def test_proxies_let_through_what_parley_takes() -> None:
    (ingress,) = kinds("Ingress")
    notes = ingress["metadata"]["annotations"]
    nginx, caddy = (DEPLOY / "nginx/parley.conf").read_text(), (DEPLOY / "caddy/Caddyfile").read_text()
    sizes = [
        *re.findall(r"client_max_body_size (\d+)m;", nginx),
        *re.findall(r"max_size (\d+)MB", caddy),
        notes["nginx.ingress.kubernetes.io/proxy-body-size"].removesuffix("m"),
    ]
    assert len(sizes) == 3
    assert all(int(size) * 10**6 >= settings.MAX_UPLOAD_BYTES for size in sizes)


def test_proxies_stream() -> None:
    (ingress,) = kinds("Ingress")
    notes = ingress["metadata"]["annotations"]
    nginx = (DEPLOY / "nginx/parley.conf").read_text()
    for direction in ("proxy_buffering", "proxy_request_buffering"):
        assert f"{direction} off;" in nginx
        assert notes[f"nginx.ingress.kubernetes.io/{direction.replace('_', '-')}"] == "off"
    assert "proxy_set_header X-Forwarded-For $remote_addr;" in nginx
    assert "flush_interval -1" in (DEPLOY / "caddy/Caddyfile").read_text()


# Compose and Kubernetes refer to what exists


def test_compose_refers_to_what_exists() -> None:
    services, networks, volumes = (compose()[part] for part in ("services", "networks", "volumes"))
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
        assert set(service["networks"]) <= set(networks)
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in volumes
    build = services["migrate"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).exists()
    assert (DEPLOY / build["context"]).resolve() == ROOT


def test_only_the_proxys_network_is_believed_and_only_web_is_in_it() -> None:
    edge = compose()["networks"]["edge"]["ipam"]["config"][0]["subnet"]
    assert compose()["x-parley"]["environment"]["FORWARDED_ALLOW_IPS"] == edge
    assert {name for name, service in compose()["services"].items() if "edge" in service["networks"]} == {
        "web",
        "caddy",
    }
    assert {name for name, service in compose()["services"].items() if "ports" in service} == {"caddy"}


def test_kubernetes_refers_to_what_exists() -> None:
    kustomization = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    files = {path.name for path in KUBERNETES.glob("*.yaml")}
    assert files - set(kustomization["resources"]) == {"kustomization.yaml", "secret.example.yaml", "autoscaling.yaml"}
    assert set(kustomization["resources"]) <= files
    there = {(document["kind"], document["metadata"]["name"]) for document in manifests()}
    for pod in pods().values():
        for container in pod["containers"]:
            assert container["image"] == kustomization["images"][0]["name"]
            for source in container["envFrom"]:
                ((reference, target),) = source.items()
                assert ({"configMapRef": "ConfigMap", "secretRef": "Secret"}[reference], target["name"]) in there
            assert {mount["name"] for mount in container["volumeMounts"]} == {
                volume["name"] for volume in pod["volumes"]
            }
        claims = [
            volume["persistentVolumeClaim"]["claimName"]
            for volume in pod["volumes"]
            if "persistentVolumeClaim" in volume
        ]
        assert all(("PersistentVolumeClaim", claim) in there for claim in claims)
    labels = [document["spec"]["template"]["metadata"]["labels"] for document in kinds("Deployment")]
    for document in kinds("Deployment", "PodDisruptionBudget"):
        assert document["spec"]["selector"]["matchLabels"] in labels
    for document in kinds("Service"):
        assert document["spec"]["selector"] in labels
    for document in kinds("HorizontalPodAutoscaler"):
        target = document["spec"]["scaleTargetRef"]
        assert (target["kind"], target["name"]) in there
    (ingress,) = kinds("Ingress")
    backend = ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["name"]
    assert ("Service", backend) in there


# Hardening, the image and the units


def test_containers_have_no_rights_and_write_only_where_they_must() -> None:
    (user,) = re.findall(r"^USER (\d+):\d+$", DOCKERFILE, re.MULTILINE)
    for pod in pods().values():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == int(user)
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/data", "/tmp"}
    ours = [service for service in compose()["services"].values() if service["image"].startswith("parley:")]
    assert len(ours) == 4
    for service in ours:
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_the_image_has_the_projects_python_and_all_that_the_wheel_needs() -> None:
    (tag,) = set(re.findall(r"^ARG PYTHON=python:([\d.]+)", DOCKERFILE, re.MULTILINE))
    assert tag == (ROOT / ".python-version").read_text().strip()
    copied = {
        path.rstrip("/")
        for line in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
        for path in line.split()
    }
    admitted = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    packed = re.search(r"^only-include = (\[.+\])$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert packed
    assert copied == admitted
    assert set(json.loads(packed[1])) <= copied
    assert all((ROOT / path).exists() for path in copied)


def test_units_name_existing_units_and_programs() -> None:
    units = {path.name for path in SYSTEMD.iterdir() if path.suffix in (".service", ".target")}
    for name in units:
        values = unit(name)
        wanted = " ".join(values.get("Requires", []) + values.get("After", []) + values.get("PartOf", []))
        assert {word for word in wanted.split() if word.startswith("parley")} <= units
        for command in values.get("ExecStart", []):
            assert command.split()[0] in {f"/opt/parley/bin/{program}" for program in ("parley", "uvicorn", "celery")}
    enabled = re.search(r"systemctl enable --now (.+)$", ONE_MACHINE, re.MULTILINE)
    assert enabled
    started = {re.sub(r"@\w+", "@", word) for word in enabled[1].split()}
    assert started == {name.removesuffix(".service") for name in units}


def test_services_write_only_where_the_settings_say() -> None:
    values = unit("parley-worker@.service")
    assert f"DATA_DIR=/var/lib/{values['StateDirectory'][0]}" in ONE_MACHINE
    assert values["EnvironmentFile"] == ["/etc/parley/.env"]
    assert values["ProtectSystem"] == ["strict"]
    assert values["User"] == ["parley"]
    assert "ReadWritePaths" not in values


# make audit

PACKAGES = {
    "clean": {"name": "django", "version": "6.1", "vulns": []},
    "vulnerable": {"name": "old", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]},
    "unknown": {"name": "unreached", "skip_reason": "not found"},
}


@pytest.mark.parametrize(
    ("found", "status", "said"),
    [
        (["clean"], 0, "1 of 1 packages were checked, 0 are vulnerable"),
        (["clean", "vulnerable", "unknown"], 1, "old 1: PYSEC-1, fixed in 2"),
        (["clean", "unknown"], 2, "NOT CHECKED"),
        (["unknown"], 2, "0 of 1 packages were checked"),
        (None, 2, "could not be checked"),
    ],
)
def test_an_audit_that_could_not_ask_is_not_green(
    found: list[str] | None, status: int, said: str, tmp_path: Path
) -> None:
    program = tmp_path / "pip-audit"
    answer = "no connection" if found is None else json.dumps({"dependencies": [PACKAGES[name] for name in found]})
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n")
    program.chmod(0o755)
    command = [sys.executable, str(DEPLOY / "tools/audit.py"), str(program)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == status
    assert said in done.stdout + done.stderr


def test_the_tools_are_pinned_with_hashes_and_name_no_host() -> None:
    text = (DEPLOY / "tools/requirements.txt").read_text()
    pinned = re.findall(r"^[\w.\[\],-]+==", text, re.MULTILINE)
    assert {"cyclonedx-bom==", "pip-audit=="} <= set(pinned)
    assert text.count("--hash=sha256:") >= len(pinned)
    assert not re.search(r"https?://|--index-url|--find-links", text)
