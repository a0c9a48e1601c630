"""agentkit installs without a framework, and builds as a wheel."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import agentkit
from apps.deployments.environments import KIT_NEEDS
from tests.stack import ROOT

FOLDER = Path(agentkit.__file__).parent
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]  # of all wheels


def test_importing_it_imports_nothing_but_the_standard_library():
    code = (
        "import sys, agentkit, agentkit.testing\n"
        "tops = {name.partition('.')[0] for name in sys.modules}\n"
        "print(*sorted(tops - set(sys.stdlib_module_names) - {'agentkit', '__main__'}))"
    )
    # -S leaves out site-packages and what their .pth files import.
    command = [sys.executable, "-S", "-c", f"import sys; sys.path.append({str(FOLDER.parent)!r})\n{code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.strip() == ""


def test_every_public_name_exists():
    assert sorted(agentkit.__all__) == agentkit.__all__
    assert all(hasattr(agentkit, name) for name in agentkit.__all__)


def test_agents_of_folders_get_what_the_wheel_needs():
    stated = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
    assert sorted(KIT_NEEDS) == sorted([*stated["dependencies"], *stated["optional-dependencies"]["serve"]])


def test_it_builds_as_a_wheel_of_its_own(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=FOLDER, check=True, capture_output=True)
    (wheel,) = tmp_path.glob(f"parley_agentkit-{VERSION}-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    ours = {name for name in names if not name.startswith("parley_agentkit-")}
    packed = (path for path in FOLDER.rglob("*") if path.suffix in (".py", ".html") or path.name == "py.typed")
    assert ours == {f"agentkit/{path.relative_to(FOLDER)}" for path in packed}
