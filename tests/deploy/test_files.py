"""The files of deploy/ and the pages of docs/running agree with the code and with one another."""

import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

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
CADDY, NGINX, ENV_EXAMPLE = (
    (DEPLOY / name).read_text() for name in ("caddy/Caddyfile", "nginx/parley.conf", "env.example")
)
RUNNING = {path: path.read_text() for path in (ROOT / "docs/running").glob("*.md")}
ONE_MACHINE = (ROOT / "docs/running/one-machine.md").read_text()
DOCKERFILE = re.sub(r"^#.*\n", "", (DEPLOY / "docker/Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", "")
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
NOT_OURS = {
    "PATH", "HOME", "PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "DJANGO_SETTINGS_MODULE",
    "PROMETHEUS_MULTIPROC_DIR",
}  # fmt: skip
OF_COMPOSE = {
    "PARLEY_HOST",
    "PARLEY_VERSION",
    "POSTGRES_PASSWORD",
    "WEB_REPLICAS",
    "WORKER_REPLICAS",
    "WORKER_MEMORY",
    "DATABASE_MEMORY",
    "BACKUP_PLACE",
}
NEEDED = {
    "DATABASE_URL", "CELERY_BROKER_URL", "CHANNEL_LAYER_URL", "SECRET_KEY", "MASTER_KEY", "PUBLIC_BASE_URL",
    "ALLOWED_HOSTS", "FORWARDED_ALLOW_IPS",
}  # fmt: skip
RELEASE_SECONDS = 30  # that `WorkerProcess.close` waits beside DRAIN_SECONDS for runs to be given back
WORKER = "celery -A parley worker --without-gossip --without-mingle --without-heartbeat"
BEAT = "celery -A parley beat"


def manifests() -> list[dict[str, Any]]:
    files = [path for path in KUBERNETES.glob("*.yaml") if path.name != "kustomization.yaml"]
    return [document for path in files for document in yaml.safe_load_all(path.read_text())]


def kinds(*names: str) -> Iterator[dict[str, Any]]:
    return (document for document in manifests() if document["kind"] in names)


def pods() -> dict[str, dict[str, Any]]:
    """The pods' specifications by the name of their Deployment or Job."""
    return {one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in kinds("Deployment", "Job")}


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


def is_selected(labels: dict[str, str], selector: dict[str, Any]) -> bool:
    """Has a pod the labels that a policy's selector wants?"""
    wanted = selector.get("matchLabels", {}).items() <= labels.items()
    return wanted and all(labels.get(one["key"]) in one["values"] for one in selector.get("matchExpressions", []))


def missing_references(documents: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """Kinds and names that Kubernetes' resources refer to, and that are not among them."""
    there = {(one["kind"], one["metadata"]["name"]) for one in documents}
    workloads = [one for one in documents if one["kind"] in ("Deployment", "Job")]
    wanted = set()
    for pod in (one["spec"]["template"]["spec"] for one in workloads):
        for container in pod["containers"]:
            for source in container["envFrom"]:
                ((reference, target),) = source.items()
                wanted.add(({"configMapRef": "ConfigMap", "secretRef": "Secret"}[reference], target["name"]))
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            assert mounted == {volume["name"] for volume in pod["volumes"]}
        claims = [volume["persistentVolumeClaim"] for volume in pod["volumes"] if "persistentVolumeClaim" in volume]
        wanted |= {("PersistentVolumeClaim", claim["claimName"]) for claim in claims}
    labels = [one["spec"]["template"]["metadata"]["labels"] for one in workloads]
    for one in documents:
        if one["kind"] == "NetworkPolicy":
            assert [pod for pod in labels if is_selected(pod, one["spec"]["podSelector"])]
        if one["kind"] in ("Deployment", "PodDisruptionBudget", "Service"):
            selector = one["spec"]["selector"]
            assert selector.get("matchLabels", selector) in labels
        if one["kind"] == "HorizontalPodAutoscaler":
            wanted.add((one["spec"]["scaleTargetRef"]["kind"], one["spec"]["scaleTargetRef"]["name"]))
        if one["kind"] == "Ingress":
            backend = one["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["name"]
            wanted.add(("Service", backend))
    return wanted - there


def test_each_place_sets_what_services_need():
    heredoc = re.search(r"<<END\n(.*?)^END$", ONE_MACHINE, re.MULTILINE | re.DOTALL)
    assert heredoc
    image = "".join(re.findall(r"^ENV .*$", DOCKERFILE.split("FROM")[-1], re.MULTILINE))
    of_env = set(re.findall(r"^([A-Z_]+)=", ENV_EXAMPLE, re.MULTILINE))
    maps = [set(one.get("data") or one["stringData"]) for one in kinds("ConfigMap", "Secret")]
    complete = {
        "compose": set(COMPOSE["x-parley"]["environment"]) | of_env,
        "kubernetes": set().union(*maps),
        "one machine": set(re.findall(r"^([A-Z_]+)=", heredoc[1], re.MULTILINE)),
    }
    assert [place for place, names in complete.items() if NEEDED - names] == []
    others = set(re.findall(r"\b([A-Z_]+)=", image + " ".join(unit("parley-beat.service")["Environment"])))
    assert set().union(others, *complete.values()) - names_read() - NOT_OURS - OF_COMPOSE == set()


def test_pages_and_manifests_name_the_current_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    pages = ["README.md", *(f"docs/running/{name}.md" for name in ("README", "containers", "one-machine"))]
    others = ["platform/parley/terminal/README.md", "deploy/kubernetes/kustomization.yaml"]
    texts = [(ROOT / name).read_text() for name in (*pages, *others)]
    named = [re.findall(r"(?:parley(?:_platform|_cli)?[:-]|newTag: )(\d+\.\d+\.\d+)", text) for text in texts]
    assert all(named)
    assert {one for found in named for one in found} == {version}


def test_processes_are_started_the_same_everywhere():
    image, service = image_command(), unit("parley-web@.service")["ExecStart"][0].split()
    assert image[:2] == ["uvicorn", "parley.asgi:application"]
    assert image[-len(UVICORN) :] == service[-len(UVICORN) :] == UVICORN
    assert "command" not in COMPOSE["services"]["web"]
    assert "command" not in pods()["web"]["containers"][0]
    for name, file, command in (("worker", "worker@", WORKER), ("beat", "beat", BEAT)):
        assert " ".join(COMPOSE["services"][name]["command"]) == command
        assert " ".join(pods()[name]["containers"][0]["command"]) == command
        assert unit(f"parley-{file}.service")["ExecStart"] == [f"/opt/parley/bin/{command}"]
    (beat,) = (one for one in kinds("Deployment") if one["metadata"]["name"] == "beat")
    assert (beat["spec"]["replicas"], beat["spec"]["strategy"]["type"]) == (1, "Recreate"), "it runs once"
    patience = [
        int(COMPOSE["services"]["worker"]["stop_grace_period"].removesuffix("s")),
        pods()["worker"]["terminationGracePeriodSeconds"],
        int(unit("parley-worker@.service")["TimeoutStopSec"][0]),
    ]
    assert all(limit > DRAIN_SECONDS + RELEASE_SECONDS for limit in patience)


def test_every_command_of_parley_exists():
    shown = [block for text in RUNNING.values() for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)]
    texts = [*shown, (SYSTEMD / "parley-prepare.service").read_text(), DOCKERFILE]
    named = {name for text in texts for name in re.findall(r"(?:^|/|web |-- )parley ([a-z_]+)", text, re.MULTILINE)}
    named |= {COMPOSE["services"]["migrate"]["command"][1], pods()["migrate"]["containers"][0]["command"][1]}
    assert {"prepare", "create_user", "serve"} <= named
    assert named - set(get_commands()) == set()


def test_ports_and_probes_match():
    port = image_command()[image_command().index("--port") + 1]
    assert f"EXPOSE {port}" in DOCKERFILE
    assert f"port {port}" in CADDY
    (web,) = pods()["web"]["containers"]
    assert [str(entry["containerPort"]) for entry in web["ports"]] == [port]
    (enabled,) = [line for line in ONE_MACHINE.splitlines() if "enable --now parley.target" in line]
    started = set(re.findall(r"parley-web@(\d+)", enabled))
    assert started == set(re.findall(r"server 127\.0\.0\.1:(\d+)", NGINX))
    assert started == set(re.findall(r"127\.0\.0\.1:(\d+)", CADDY))
    asked = {web[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
    asked |= {path for text in (DOCKERFILE, ONE_MACHINE, CADDY) for path in re.findall(r"(/(?:health|ready)\w*)", text)}
    assert asked == {"/healthz", "/readyz"}
    assert all(resolve(path) for path in asked)


def test_proxies_take_uploads_and_stream():
    (ingress,) = kinds("Ingress")
    notes = ingress["metadata"]["annotations"]
    sizes = [
        *re.findall(r"client_max_body_size (\d+)m;", NGINX),
        *re.findall(r"max_size (\d+)MB", CADDY),
        notes["nginx.ingress.kubernetes.io/proxy-body-size"].removesuffix("m"),
    ]
    assert len(sizes) == 3
    assert all(int(size) * 10**6 >= settings.MAX_UPLOAD_BYTES for size in sizes)
    for direction in ("proxy_buffering", "proxy_request_buffering"):
        assert f"{direction} off;" in NGINX
        assert notes[f"nginx.ingress.kubernetes.io/{direction.replace('_', '-')}"] == "off"
    assert "proxy_set_header X-Forwarded-For $remote_addr;" in NGINX
    assert "flush_interval -1" in CADDY


def test_compose_refers_to_what_exists():
    services, networks, volumes = (COMPOSE[part] for part in ("services", "networks", "volumes"))
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
        assert set(service["networks"]) <= set(networks)
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in volumes
    build = services["migrate"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).exists()
    # Only the proxy's network is believed, and only web is in it
    edge = networks["edge"]["ipam"]["config"][0]["subnet"]
    assert COMPOSE["x-parley"]["environment"]["FORWARDED_ALLOW_IPS"] == edge
    assert {name for name, service in services.items() if "edge" in service["networks"]} == {"web", "caddy"}
    assert {name for name, service in services.items() if "ports" in service} == {"caddy"}


def test_kubernetes_refers_to_what_exists():
    kustomization = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    files = {path.name for path in KUBERNETES.glob("*.yaml")}
    assert files - set(kustomization["resources"]) == {"kustomization.yaml", "secret.example.yaml", "autoscaling.yaml"}
    images = {container["image"] for pod in pods().values() for container in pod["containers"]}
    assert images == {kustomization["images"][0]["name"]}
    assert missing_references(manifests()) == set()


def test_network_policies_let_only_the_ingress_in():
    every, web = kinds("NetworkPolicy")
    of_pods = [one["spec"]["template"]["metadata"]["labels"] for one in kinds("Deployment", "Job")]
    assert all(is_selected(labels, every["spec"]["podSelector"]) for labels in of_pods)
    assert every["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert [is_selected(labels, web["spec"]["podSelector"]) for labels in of_pods].count(True) == 1
    assert all(rule["from"] and rule["ports"] for policy in (every, web) for rule in policy["spec"]["ingress"])
    ports = {entry["port"] for rule in every["spec"]["egress"] for entry in rule.get("ports", [])}
    (secret,) = kinds("Secret")
    needed = {urlsplit(value).port for name, value in secret["stringData"].items() if name.endswith("_URL")}
    assert needed | {53} <= ports
    outward = [to["ipBlock"]["cidr"] for rule in every["spec"]["egress"] for to in rule.get("to", [])]
    assert set(outward) == {"0.0.0.0/0", "::/0"}


def test_manifests_expect_the_workers_they_start():
    (worker,) = (one for one in kinds("Deployment") if one["metadata"]["name"] == "worker")
    (scaler,) = (one for one in kinds("HorizontalPodAutoscaler") if one["metadata"]["name"] == "worker")
    (settings_of_pods,) = kinds("ConfigMap")
    expected = int(settings_of_pods["data"]["EXPECTED_WORKERS"])
    assert expected == worker["spec"]["replicas"] == scaler["spec"]["minReplicas"]
    workers = COMPOSE["services"]["worker"]["deploy"]["replicas"]
    assert COMPOSE["x-parley"]["environment"]["EXPECTED_WORKERS"] == workers


def test_stuck_processes_are_restarted_everywhere():
    (file,) = re.findall(r"ALIVE_FILE=(\S+)", DOCKERFILE)
    for name in ("worker", "beat"):
        (container,) = pods()[name]["containers"]
        probes = [container[probe]["exec"]["command"] for probe in ("startupProbe", "livenessProbe")]
        healthcheck = COMPOSE["services"][name]["healthcheck"]["test"]
        assert probes[0] == probes[1]  # the file may be that of the process before
        assert all(file in " ".join(command) for command in (*probes, healthcheck))
    for name in ("parley-worker@", "parley-beat"):
        assert unit(f"{name}.service")["WatchdogSec"] == ["4min"]


@pytest.mark.parametrize(("age", "status"), [(0, 0), (180, 0), (300, 1), (None, 1)])
def test_probes_find_stuck_processes(tmp_path, age, status):
    alive = tmp_path / "alive"
    if age is not None:
        alive.touch()
        os.utime(alive, (time.time() - age,) * 2)
    (container,) = pods()["worker"]["containers"]
    command = [word.replace("/tmp/alive", str(alive)) for word in container["livenessProbe"]["exec"]["command"]]
    assert bool(subprocess.run(command, check=False, capture_output=True).returncode) == bool(status)


def test_compose_bounds_memory_and_logs():
    for service in COMPOSE["services"].values():
        assert re.fullmatch(r"(\$\{[A-Z_]+:-)?\d+[mg]\}?", service["mem_limit"])
        assert service["logging"]["options"].keys() == {"max-size", "max-file"}


def test_containers_have_no_rights():
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
    ours = [service for service in COMPOSE["services"].values() if service["image"].startswith("parley:")]
    assert len(ours) == 5
    for service in ours:
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_image_has_all_that_the_wheel_needs():
    (tag,) = set(re.findall(r"^ARG PYTHON=python:([\d.]+)", DOCKERFILE, re.MULTILINE))
    assert tag == (ROOT / ".python-version").read_text().strip()
    lines = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    copied = {path.rstrip("/") for line in lines for path in line.split()}
    assert copied == {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    packed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert set(packed["only-include"]) <= copied
    assert all((ROOT / path).exists() for path in copied)


def test_units_name_existing_units_and_programs():
    units = {path.name for path in SYSTEMD.iterdir() if path.suffix in (".service", ".target")}
    programs = {f"/opt/parley/bin/{program}" for program in ("parley", "uvicorn", "celery")}
    for values in map(unit, units):
        wanted = " ".join(values.get("Requires", []) + values.get("After", []) + values.get("PartOf", []))
        assert {word for word in wanted.split() if word.startswith("parley")} <= units
        assert {command.split()[0] for command in values.get("ExecStart", [])} <= programs
    values = unit("parley-worker@.service")
    assert f"DATA_DIR=/var/lib/{values['StateDirectory'][0]}" in ONE_MACHINE
    assert (values["ProtectSystem"], values["User"]) == (["strict"], ["parley"])
    assert "ReadWritePaths" not in values


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
        (None, 2, "could not be checked"),
    ],
)
def test_audit_that_could_not_ask_is_not_green(found, status, said, tmp_path):
    program = tmp_path / "pip-audit"
    answer = "no connection" if found is None else json.dumps({"dependencies": [PACKAGES[name] for name in found]})
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n")
    program.chmod(0o755)
    command = [sys.executable, str(DEPLOY / "tools/audit.py"), str(program)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == status
    assert said in done.stdout + done.stderr
