"""What a release is made of is pinned, and the release says so."""

import re
from typing import Any

import yaml

from tests.deploy.test_files import DOCKERFILE
from tests.stack import ROOT

WORKFLOWS = {path.name: yaml.safe_load(path.read_text()) for path in sorted((ROOT / ".github/workflows").glob("*.yml"))}
RELEASE = WORKFLOWS["release.yml"]
RELEASES_TO = "publish"  # the job that may write to the repository


def given_to(action: str, job: str) -> dict[str, Any]:
    [found] = [step["with"] for step in RELEASE["jobs"][job]["steps"] if step.get("uses", "").startswith(f"{action}@")]
    return dict(found)


def test_images_and_actions_are_pinned():
    assert re.findall(r"^ARG PYTHON=python:[\w.-]+@sha256:[0-9a-f]{64}$", DOCKERFILE, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"${PYTHON}"}
    steps = [step for one in WORKFLOWS.values() for job in one["jobs"].values() for step in job["steps"]]
    used = [step["uses"] for step in steps if "uses" in step]
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@(v\d+\.\d+\.\d+|[0-9a-f]{40})", one)] == []


def test_images_and_packages_have_provenance():
    built = given_to("docker/build-push-action", "image")
    assert (built["provenance"], built["sbom"]) == ("mode=max", True)
    digest = "${{ steps.build.outputs.digest }}"
    for action in ("actions/attest-build-provenance", "actions/attest-sbom"):
        assert given_to(action, "image")["subject-digest"] == digest
    signed = set(given_to("actions/attest-build-provenance", "packages")["subject-path"].split())
    kept = set(given_to("actions/upload-artifact", "packages")["path"].split())
    assert signed == {"dist/*.whl", "dist/*.tgz"}
    assert signed | {"dist/sbom.json", "requirements.lock"} == kept


def test_workflows_write_only_releases_of_tags():
    assert RELEASE[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads the word `on` so
    assert set(RELEASE["jobs"][RELEASES_TO]["needs"]) == RELEASE["jobs"].keys() - {RELEASES_TO}
    for workflow in WORKFLOWS.values():
        assert workflow["permissions"] == {"contents": "read"}
        for name, job in workflow["jobs"].items():
            contents = "write" if name == RELEASES_TO else "read"
            assert job["permissions"].get("contents", "read") == contents
            assert not job["permissions"].keys() - {"contents", "packages", "id-token", "attestations"}
    fetched, published = RELEASE["jobs"][RELEASES_TO]["steps"]  # no code of the repository
    assert fetched["uses"].startswith("actions/download-artifact@")
    assert published["run"].startswith("gh release create ")
