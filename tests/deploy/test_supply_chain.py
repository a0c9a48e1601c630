"""What a release is made of is pinned, and the release says so."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
import yaml

from tests.deploy.test_files import DOCKERFILE
from tests.stack import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
DIGEST = "sha256:" + "0" * 64


def steps() -> list[dict[str, Any]]:
    jobs = [job for path in WORKFLOWS for job in yaml.safe_load(path.read_text())["jobs"].values()]
    return [step for job in jobs for step in job["steps"]]


def given_to(action: str) -> dict[str, Any]:
    [found] = [step["with"] for step in steps() if step.get("uses", "").startswith(f"{action}@")]
    return dict(found)


@pytest.mark.parametrize(
    ("base", "unpinned", "builds"),
    [(f"python:3.13@{DIGEST}", "no", True), ("python:3.13", "no", False), ("python:3.13", "yes", True)],
)
def test_an_image_without_a_pinned_base_is_not_built(base: str, unpinned: str, builds: bool) -> None:
    first = DOCKERFILE.split("FROM ${PYTHON}")[1]
    check = re.search(r"^RUN (case .*)$", first, re.MULTILINE)
    assert check
    done = subprocess.run(["sh", "-c", check[1]], env={"PYTHON": base, "UNPINNED": unpinned}, capture_output=True)
    assert (done.returncode == 0) == builds


def test_all_stages_begin_with_the_checked_base() -> None:
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
