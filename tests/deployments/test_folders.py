"""Agents' folders as archives."""

import io
import zipfile

import pytest

from agentkit import HandlerError
from agentkit.command.packing import pack_folder
from apps.deployments import folders
from tests.deployments import folder


def test_same_files_have_one_digest(tmp_path):
    one, other = folder.write(tmp_path / "one"), folder.write(tmp_path / "other")
    (other / ".env").write_text("OPENAI_API_KEY=canary")
    (other / ".venv").mkdir()
    (other / ".venv" / "big.py").write_text("x")
    first, second = pack_folder(one), pack_folder(other)
    assert first.digest == second.digest
    assert b"canary" not in second.archive


def test_unpacked_folder_has_its_files_and_programs(tmp_path):
    packed = folder.write(tmp_path / "one")
    (packed / "run.sh").write_text("#!/bin/sh\n")
    (packed / "run.sh").chmod(0o755)
    folders.unpack(pack_folder(packed).archive, tmp_path / "there")
    assert (tmp_path / "there" / "agent.py").read_text() == (packed / "agent.py").read_text()
    assert (tmp_path / "there" / "run.sh").stat().st_mode & 0o111


def test_zip_of_folder_is_that_folder(tmp_path):
    at = folder.write(tmp_path / "one")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name in ("agent.yaml", "agent.py"):
            made.write(at / name, f"my-agent/{name}")
    assert folders.pack_archive(file.getvalue()).digest == pack_folder(at).digest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("handler: a:B\nserve: ./x\n", "by one of"),
        ("serve: ./x\nsecrets: [lower]\n", "secrets.0"),
        ("serve: [", "no YAML"),
        ("serve: ./x\nmemmory: 3\n", "memmory"),
    ],
)
def test_wrong_description_is_refused_by_name(tmp_path, text, said):
    (tmp_path / "agent.yaml").write_text(text)
    with pytest.raises(HandlerError, match=said):
        pack_folder(tmp_path)


def test_link_out_of_folder_is_refused(tmp_path):
    at = folder.write(tmp_path / "one")
    (at / "passwords").symlink_to("/etc/passwd")
    with pytest.raises(HandlerError, match="symbolic link"):
        pack_folder(at)
