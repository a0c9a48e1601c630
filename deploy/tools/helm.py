"""`make chart`: a Helm chart of deploy/kubernetes, as dist/chart/parley/ and dist/parley-VERSION.tgz.

The manifests stay the one place that says how Parley runs on Kubernetes. Here stands what a chart lets people change.

    python deploy/tools/helm.py dist [--image REPOSITORY]
"""

from __future__ import annotations

import argparse
import gzip
import io
import re
import shutil
import tarfile
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "deploy" / "kubernetes"
NAME = "parley"
LEFT_OUT = {"kustomization.yaml", "namespace.yaml"}  # Helm has ways of its own
RELEASE = "{{ .Release.Name }}"
INSTANCE = {"app.kubernetes.io/instance": RELEASE}
SECRET_NAME = "{{ .Values.existingSecret | default .Release.Name }}"  # noqa: S105
HOST = "{{ .Values.host }}"
OF_OTHER_VALUES = {
    "PUBLIC_BASE_URL": f"https://{HOST}",
    "ALLOWED_HOSTS": HOST,
    "EXPECTED_WORKERS": "{{ .Values.worker.replicas }}",
}
"""Settings that other values of the chart give."""
Manifest = dict[str, Any]


def bare(expression: str) -> str:
    """An expression that stands without quotes: it gives a number, or JSON, which is YAML as well."""
    return f"<<{{{{ {expression} }}}}>>"


def named(name: str) -> str:
    """A resource's name. Releases in one namespace have different ones."""
    return RELEASE if name == NAME else f"{RELEASE}-{name}"


def lines_for_each(values: str, value: str) -> str:
    """The lines of a map, each with `value`, which is an expression of $name and $value."""
    return f"{{{{- range $name, $value := {values} }}}}\n  {{{{ $name }}}}: {{{{ {value} }}}}\n{{{{- end }}}}"


# What people change, by the kind of manifest


def change_deployment(manifest: Manifest) -> None:
    name, spec = manifest["metadata"]["name"], manifest["spec"]
    if name != "beat":  # it runs once
        spec["replicas"] = bare(f".Values.{name}.replicas")
    change_selector(manifest)
    spec["template"]["metadata"]["annotations"] = {  # so that pods of other settings replace these
        "checksum/settings": "{{ list .Values.host .Values.settings .Values.secrets | toJson | sha256sum }}"
    }
    change_pod(spec["template"], name)


def change_job(manifest: Manifest) -> None:
    """A job cannot be changed: each revision has one of its own, and Helm deletes that of the revision before."""
    change_pod(manifest["spec"]["template"], manifest["metadata"]["name"])
    manifest["metadata"]["name"] += "-{{ .Release.Revision }}"


def change_pod(template: Manifest, name: str) -> None:
    template["metadata"]["labels"] |= INSTANCE
    pod = template["spec"]
    pod["imagePullSecrets"] = bare("toJson .Values.image.pullSecrets")
    for container in pod["containers"]:
        container["image"] = "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
        container["imagePullPolicy"] = "{{ .Values.image.pullPolicy }}"
        container["resources"] = bare(f"toJson .Values.{name}.resources")
        for source in container["envFrom"]:
            for kind, reference in source.items():
                reference["name"] = SECRET_NAME if kind == "secretRef" else named(reference["name"])
    for volume in pod["volumes"]:
        if claim := volume.get("persistentVolumeClaim"):
            claim["claimName"] = "{{ .Values.storage.existingClaim | default .Release.Name }}"


def change_selector(manifest: Manifest) -> None:
    selector = manifest["spec"]["selector"]
    selector.get("matchLabels", selector).update(INSTANCE)


def change_settings(manifest: Manifest) -> None:
    assert OF_OTHER_VALUES.keys() < manifest["data"].keys()
    manifest["data"] = OF_OTHER_VALUES | {"<<settings>>": ""}


def change_secret(manifest: Manifest) -> None:
    del manifest["metadata"]["namespace"]
    manifest["stringData"] = {"<<secrets>>": ""}


def change_claim(manifest: Manifest) -> None:
    manifest["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}  # files outlive the release
    spec = manifest["spec"]
    spec["accessModes"] = bare("toJson .Values.storage.accessModes")
    spec["resources"]["requests"]["storage"] = "{{ .Values.storage.size }}"
    spec["<<class>>"] = ""


def change_ingress(manifest: Manifest) -> None:
    manifest["metadata"]["annotations"] = bare("toJson .Values.ingress.annotations")
    spec = manifest["spec"]
    spec["ingressClassName"] = "{{ .Values.ingress.className }}"
    spec["tls"] = [{"hosts": [HOST], "secretName": "{{ .Values.ingress.tlsSecret }}"}]
    for rule in spec["rules"]:
        rule["host"] = HOST
        for path in rule["http"]["paths"]:
            path["backend"]["service"]["name"] = named(path["backend"]["service"]["name"])


def change_autoscaler(manifest: Manifest) -> None:
    name, spec = manifest["metadata"]["name"], manifest["spec"]
    spec["scaleTargetRef"]["name"] = named(spec["scaleTargetRef"]["name"])
    spec["minReplicas"] = bare(f".Values.{name}.replicas")
    spec["maxReplicas"] = bare(f".Values.{name}.maxReplicas")


def change_network(manifest: Manifest) -> None:
    spec = manifest["spec"]
    spec["podSelector"].setdefault("matchLabels", {}).update(INSTANCE)
    name = "metrics" if "egress" in spec else "web"
    for rule in spec["ingress"]:
        for one in rule["from"]:
            (expression,) = one["namespaceSelector"]["matchExpressions"]
            expression["values"] = bare(f"toJson .Values.network.{name}")


CHANGES: Mapping[str, Callable[[Manifest], None]] = {
    "Deployment": change_deployment,
    "Job": change_job,
    "Service": change_selector,
    "PodDisruptionBudget": change_selector,
    "ConfigMap": change_settings,
    "Secret": change_secret,
    "PersistentVolumeClaim": change_claim,
    "Ingress": change_ingress,
    "NetworkPolicy": change_network,
    "HorizontalPodAutoscaler": change_autoscaler,
}
ONLY_IF = {
    "Secret": "not .Values.existingSecret",
    "PersistentVolumeClaim": "not .Values.storage.existingClaim",
    "Ingress": ".Values.ingress.enabled",
    "NetworkPolicy": ".Values.network.enabled",
    "HorizontalPodAutoscaler": ".Values.autoscaling",
}
MISSING = '(printf "Set secrets.%s, or existingSecret." $name)'
LINES = {
    r"  <<settings>>: ''": lines_for_each(".Values.settings", "$value | toString | quote"),
    r"  <<secrets>>: ''": lines_for_each(".Values.secrets", f"required {MISSING} $value | quote"),
    r"  <<class>>: ''": "{{- if .Values.storage.className }}\n"
    "  storageClassName: {{ .Values.storage.className | quote }}\n{{- end }}",
    r"(  replicas: <<.*)": r"{{- if not .Values.autoscaling }}\n\1\n{{- end }}",
    r"(.*)<<(.*)>>": r"\1\2",
}


def template_of(manifest: Manifest) -> str:
    kind, metadata = manifest["kind"], manifest["metadata"]
    CHANGES[kind](manifest)
    metadata["name"] = named(metadata["name"])
    metadata.setdefault("labels", {}).update(
        {
            "app.kubernetes.io/part-of": NAME,
            **INSTANCE,
            "app.kubernetes.io/version": "{{ .Chart.AppVersion }}",
            "app.kubernetes.io/managed-by": "{{ .Release.Service }}",
            "helm.sh/chart": "{{ .Chart.Name }}-{{ .Chart.Version }}",
        }
    )
    text = yaml.safe_dump(manifest, sort_keys=False, width=1000)
    for line, template in LINES.items():
        text = re.sub(f"^{line}$", template, text, flags=re.MULTILINE)
    return f"{{{{- if {ONLY_IF[kind]} }}}}\n{text}{{{{- end }}}}\n" if kind in ONLY_IF else text


# The chart


def manifests_of(path: Path) -> list[Manifest]:
    return list(yaml.safe_load_all(path.read_text()))


def values(image: str) -> str:
    """What people change, with the values of the manifests."""
    there = {
        (one["kind"], one["metadata"]["name"]): one
        for path in MANIFESTS.glob("*.yaml")
        if path.name not in LEFT_OUT
        for one in manifests_of(path)
    }
    (ingress,) = (one for (kind, _), one in there.items() if kind == "Ingress")
    claim = there["PersistentVolumeClaim", NAME]["spec"]
    settings, secrets = there["ConfigMap", NAME]["data"], there["Secret", NAME]["stringData"]
    groups: list[tuple[str, dict[str, Any]]] = [
        ("The name under which people reach Parley.", {"host": ingress["spec"]["rules"][0]["host"]}),
        ("The tag is the chart's version where none is set.",
         {"image": {"repository": image, "tag": "", "pullPolicy": "IfNotPresent", "pullSecrets": []}}),
        ("A secret that is there already, with the names below. Without it, the chart makes one.",
         {"existingSecret": ""}),
        ("Other secret settings may be added. What MASTER_KEY encrypts is lost with it.",
         {"secrets": dict.fromkeys(secrets, "")}),
        ("Settings that are no secrets, as text; the host gives PUBLIC_BASE_URL and ALLOWED_HOSTS, and the\n"
         "replicas EXPECTED_WORKERS.\n"
         "FORWARDED_ALLOW_IPS is the network of the ingress controller's pods: their X-Forwarded-For is believed.",
         {"settings": {name: settings[name] for name in settings if name not in OF_OTHER_VALUES}}),
        ("Processes. With autoscaling, they are from `replicas` to `maxReplicas`.", {"autoscaling": False}),
        *(("", {name: _sizes(name, there)}) for name in ("web", "worker", "beat", "migrate")),
        ("Files of conversations, for web and worker alike. Helm keeps the claim when the release goes.",
         {"storage": {"existingClaim": "", "className": "", "size": claim["resources"]["requests"]["storage"],
                      "accessModes": claim["accessModes"]}}),
        ("The annotations are for ingress-nginx: no buffering, an hour without data, 210 MB of a body.",
         {"ingress": {"enabled": True, "className": ingress["spec"]["ingressClassName"],
                      "tlsSecret": ingress["spec"]["tls"][0]["secretName"],
                      "annotations": ingress["metadata"]["annotations"]}}),
        ("The namespaces whose pods may call web (ingress controller, Prometheus), and the METRICS_PORT of the others.",
         {"network": {"enabled": True, "web": _callers(there["NetworkPolicy", "web"]),
                      "metrics": _callers(there["NetworkPolicy", NAME])}}),
    ]  # fmt: skip
    return "".join(
        re.sub("^", "# ", comment, flags=re.MULTILINE) + "\n" + text if comment else text
        for comment, group in groups
        for text in (yaml.safe_dump(group, sort_keys=False),)
    )


def _callers(policy: Manifest) -> list[str]:
    (rule,) = policy["spec"]["ingress"]
    namespaces: list[str] = rule["from"][0]["namespaceSelector"]["matchExpressions"][0]["values"]
    return namespaces


def _sizes(name: str, there: Mapping[tuple[str, str], Manifest]) -> dict[str, Any]:
    spec = (there.get(("Deployment", name)) or there["Job", name])["spec"]
    sizes = {"resources": spec["template"]["spec"]["containers"][0]["resources"]}
    if scaler := there.get(("HorizontalPodAutoscaler", name)):
        return {"replicas": spec["replicas"], "maxReplicas": scaler["spec"]["maxReplicas"], **sizes}
    return sizes


NOTES = """\
Parley {{ .Chart.AppVersion }} starts at https://{{ .Values.host }}/ once its database is prepared.
Then make the first operator:

    kubectl --namespace {{ .Release.Namespace }} exec deploy/{{ .Release.Name }}-web -- \\
        parley create_user you@example.org --operator
"""


def chart(image: str) -> dict[str, str]:
    """The chart's files by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    about = {
        "apiVersion": "v2",
        "name": NAME,
        "type": "application",
        "version": project["version"],
        "appVersion": project["version"],
        "description": project["description"],
    }
    files = {"Chart.yaml": yaml.safe_dump(about, sort_keys=False), "values.yaml": values(image)}
    for path in sorted(MANIFESTS.glob("*.yaml")):
        if path.name not in LEFT_OUT:
            name = path.name.replace(".example", "")
            files[f"templates/{name}"] = "---\n".join(template_of(one) for one in manifests_of(path))
    return files | {"templates/NOTES.txt": NOTES}


def packed(files: Mapping[str, str]) -> bytes:
    """The files as `helm package` packs them; the same files give the same bytes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(f"{NAME}/{name}")
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return gzip.compress(out.getvalue(), mtime=0)


def write(folder: Path, image: str) -> Path:
    """Write the chart into `folder`, and return the packed one."""
    files = chart(image)
    shutil.rmtree(folder / "chart", ignore_errors=True)
    for name, text in files.items():
        path = folder / "chart" / NAME / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    package = folder / f"{NAME}-{yaml.safe_load(files['Chart.yaml'])['version']}.tgz"
    package.write_bytes(packed(files))
    return package


def main() -> None:
    (image,) = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())["images"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--image", default=image["newName"], help="the image's repository, without a tag")
    given = parser.parse_args()
    print(write(given.folder, given.image))


if __name__ == "__main__":
    main()
