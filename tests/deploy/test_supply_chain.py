"""What a release is made of is pinned, and the release says so."""

from __future__ import annotations

import re
from typing import Any

import yaml

from tests.deploy.test_files import DOCKERFILE
from tests.stack import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def steps() -> list[dict[str, Any]]:
    jobs = [job for path in WORKFLOWS for job in yaml.safe_load(path.read_text())["jobs"].values()]
    return [step for job in jobs for step in job["steps"]]


def given_to(action: str) -> dict[str, Any]:
    [found] = [step["with"] for step in steps() if step.get("uses", "").startswith(f"{action}@")]
    return dict(found)


def test_the_base_image_is_pinned_by_digest() -> None:
    assert re.findall(r"^ARG PYTHON=python:[\w.-]+@sha256:[0-9a-f]{64}$", DOCKERFILE, re.MULTILINE)


def test_all_stages_begin_with_the_pinned_base() -> None:
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"${PYTHON}"}


def test_actions_are_of_one_version() -> None:
    used = [step["uses"] for step in steps() if "uses" in step]
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@(v\d+\.\d+\.\d+|[0-9a-f]{40})", one)] == []


def test_images_have_provenance_and_a_list_of_packages() -> None:
    built = given_to("docker/build-push-action")
    assert (built["provenance"], built["sbom"]) == ("mode=max", True)
    digest = "${{ steps.build.outputs.digest }}"
    for action in ("actions/attest-build-provenance", "actions/attest-sbom"):
        assert given_to(action)["subject-digest"] == digest


def test_workflows_may_write_nothing_but_what_they_make() -> None:
    for path in WORKFLOWS:
        workflow = yaml.safe_load(path.read_text())
        assert workflow["permissions"] == {"contents": "read"}
        for job in workflow["jobs"].values():
            assert job["permissions"].get("contents", "read") == "read"
            assert not job["permissions"].keys() - {"contents", "packages", "id-token", "attestations"}
