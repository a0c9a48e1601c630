"""The wheel is complete: installed in an environment of its own, `parley serve` runs in an empty folder."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import time
import tomllib
import urllib.request
import venv
import zipfile
from pathlib import Path

import pytest

from tests.stack import ROOT, START_SECONDS, free_port

LEFT_OUT = ("platform/config/", "examples/clippings_app/")  # for checkouts alone; a package of its own
BUILD = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory"]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
KEPT = ("PATH", "HOME", "LANG", "TMPDIR")  # no settings, and no PYTHONPATH


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([*BUILD, str(folder)], cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob(f"parley_platform-{VERSION}-*.whl")
    return built


@pytest.fixture(scope="module")
def parley(wheel, tmp_path_factory):
    """The program of an environment that has the wheel, and this one's packages without the checkout."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=True, symlinks=True)
    python = folder / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    site = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    # Python reads no .pth files there, so the checkout's editable installation stays out.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "parley"


@pytest.fixture(scope="module")
def served(parley, tmp_path_factory):
    """Address and folder of `parley serve`."""
    folder, port = tmp_path_factory.mktemp("empty"), free_port()
    environment = {key: os.environ[key] for key in KEPT if key in os.environ} | {"PORT": str(port)}
    written = tmp_path_factory.mktemp("log") / "serve.log"
    with written.open("wb") as log:
        process = subprocess.Popen(
            [str(parley), "serve"], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        wait_until_ready(process, f"http://127.0.0.1:{port}/readyz", written)
        yield f"http://127.0.0.1:{port}", folder
    finally:
        process.terminate()
        process.wait(60)


def wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()  # noqa: PT018
            time.sleep(0.05)


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


def test_it_has_every_file_and_nothing_else(wheel):
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    places = {"platform/": "", "docs/extensions/": "parley/assets/docs/extensions/", "static/": "parley/assets/static/",
              "docs/running/": "parley/assets/docs/running/", "templates/": "parley/assets/templates/",
              "apps/": "apps/", "examples/": "examples/"}  # fmt: skip
    wanted = {
        place + path.removeprefix(folder)
        for path in tracked
        for folder, place in places.items()
        if path.startswith(folder) and (ROOT / path).exists() and not path.startswith(LEFT_OUT)
    } - {f"{name}/{file}" for name in ("agentkit", "parley/terminal") for file in ("pyproject.toml", "README.md")}
    ours = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    new = {name for name in ours - wanted if name.endswith(".py")}  # not yet in version control
    assert wanted - ours == set()
    assert ours - wanted - new == set()
    assert {name.split("/")[0] for name in ours} == {"agentkit", "apps", "examples", "parley"}


def say(parley: Path, folder: Path, *arguments: str) -> str:
    environment = {key: os.environ[key] for key in KEPT if key in os.environ}
    command = [str(parley), *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.services("it runs in a process of its own, which compiles all modules", only=True)
def test_it_serves_from_an_empty_folder(parley, served, tmp_path):
    assert say(parley, tmp_path, "--version") == say(parley, tmp_path, "version") == f"Parley {VERSION}\n"
    commands = say(parley, tmp_path, "help", "--commands").split()
    assert {"serve", "prepare", "create_user", "replay", "ask"} <= set(commands)
    base, folder = served
    page = get(f"{base}/sign-in")
    (style, *_) = re.findall(r'href="(/static/[^"]+\.css)"', page)
    assert "{" in get(base + style)
    assert "cursor" in get(f"{base}/ext/cursor/v1")
    (key,) = re.findall(r"API key of \S+: (\S+)", (folder / "var" / "first-login.txt").read_text())
    message = {"messageId": "from-a-wheel", "role": "ROLE_USER", "parts": [{"text": "Hello, wheel"}]}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    headers = {"Authorization": f"Bearer {key}", "A2A-Version": "1.0", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{base}/a2a/echo", json.dumps(call).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        task = json.load(answer)["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"][0]["text"] == "Hello, wheel"
    assert [path.name for path in folder.iterdir()] == ["var"]
