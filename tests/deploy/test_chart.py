"""The Helm chart that is made from deploy/kubernetes, read without Helm: its templates as YAML, with its own values."""

import io
import json
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.test_files import kinds, manifests, missing_references, pods
from tests.stack import ROOT

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
ACTION = re.compile(r"\{\{-?\s*(.*?)\s*\}\}")
BLOCK = re.compile(r"^\{\{- (?:if|range|end)\b.*\n?", re.MULTILINE)
RELEASE = {"Name": "team", "Namespace": "there", "Service": "Helm", "Revision": "3"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    made = [sys.executable, "deploy/tools/helm.py", str(folder), "--image", "ghcr.example/parley"]
    subprocess.run(made, cwd=ROOT, check=True, capture_output=True)
    package = (folder / f"parley-{VERSION}.tgz").read_bytes()
    with tarfile.open(fileobj=io.BytesIO(package)) as tar:
        texts = {one.name.removeprefix("parley/"): tar.extractfile(one) for one in tar}
        return {name: text.read().decode() for name, text in texts.items() if text}


@pytest.fixture(scope="module")
def resources(files):
    """As with everything that can be switched on. Raises KeyError for a value that the chart does not have."""
    about = yaml.safe_load(files["Chart.yaml"])
    chart = {"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]}
    scope = {"Values": yaml.safe_load(files["values.yaml"]), "Release": RELEASE, "Chart": chart}

    def value_of(found: re.Match[str]) -> str:
        value: Any = "x"
        for path in re.findall(r"(?<!\w)\.([A-Z][\w.]*)", found[1])[:: -1 if "default" in found[1] else 1][:1]:
            value = scope
            for name in path.split("."):
                value = value[name]
        return json.dumps(value) if "toJson" in found[1] and "sha256sum" not in found[1] else str(value)

    texts = [Path(name).suffix == ".yaml" and "templates/" in name and text for name, text in files.items()]
    plain = [ACTION.sub(value_of, BLOCK.sub("", text)) for text in texts if text]
    return [one for text in plain for one in yaml.safe_load_all(text) if one]


def test_chart_has_every_resource_of_the_manifests(resources):
    def named(of: list[dict[str, Any]]) -> list[tuple[str, str]]:
        return sorted((one["apiVersion"], one["kind"]) for one in of if one["kind"] != "Namespace")

    assert named(resources) == named(manifests())
    assert missing_references(resources) == set()


def test_its_pods_are_those_of_the_manifests(resources):
    changed = {"image", "imagePullPolicy", "envFrom", "resources"}
    for template in (one["spec"]["template"] for one in resources if one["kind"] in ("Deployment", "Job")):
        pod, there = template["spec"], pods()[template["metadata"]["labels"]["app.kubernetes.io/name"]]
        (container,), (its,) = pod["containers"], there["containers"]
        assert container["image"] == f"ghcr.example/parley:{VERSION}"
        assert container["resources"] == its["resources"]
        assert {key: container[key] for key in its if key not in changed} == {
            key: its[key] for key in its if key not in changed
        }
        same = there.keys() - {"containers", "volumes"}
        assert {key: pod[key] for key in same} == {key: there[key] for key in same}


def test_secrets_are_required_and_not_given(files):
    (secret,) = kinds("Secret")
    assert yaml.safe_load(files["values.yaml"])["secrets"] == dict.fromkeys(secret["stringData"], "")
    assert re.search(r"\{\{ required .* \$value \| quote \}\}", files["templates/secret.yaml"])
    assert files["templates/secret.yaml"].startswith("{{- if not .Values.existingSecret }}")
