"""The commands that make an agent's environment."""

import sys

from apps.deployments import environments


def test_environment_is_one_whatever_python_is_called(tmp_path, monkeypatch):
    """Else a process that calls its Python by another name makes it again, under the agent that runs in it."""
    (tmp_path / "agent.yaml").write_text("handler: agent:Loud\n")

    def setup():
        return environments.plan(tmp_path, tmp_path / "home", tmp_path / "kit", {}, tmp_path / "socket")["setup"]

    before, other = setup(), tmp_path / "python-by-another-name"
    other.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(other))
    assert setup() == before
