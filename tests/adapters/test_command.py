"""Programs are agents: standard input and output, files, progress, exit codes."""

import asyncio
import sys

import pytest

from agentkit import Completed, Failed, raw_part, testing
from agentkit.adapters.command import agent
from agentkit.command.folders import agent_at


def program(code: str, **options: object):
    return agent([sys.executable, "-c", code], **options)


async def test_output_streams_and_is_the_answer():
    run = await testing.run(program("print(input().upper(), end='')"), "hello")
    assert isinstance(run.outcome, Completed)
    assert run.text == "HELLO"


async def test_lines_at_standard_error_are_progress():
    run = await testing.run(program("import sys; print('one\\ntwo', file=sys.stderr)"), "hello")
    assert run.recorder.progress == ["one", "two"]


async def test_exit_code_fails_the_task():
    run = await testing.run(program("import sys; sys.exit('No such city.')"), "hello")
    assert run.outcome == Failed("No such city.", "exit_code", {"exitCode": 1})


async def test_files_go_in_and_out():
    code = (
        "import os, pathlib\n"
        "given, = pathlib.Path(os.environ['FILES']).iterdir()\n"
        "pathlib.Path(os.environ['OUTPUT'], 'b.txt').write_text(given.name + given.read_text())"
    )
    run = await testing.run(program(code), "Copy", files={"../a.txt": b"content"})
    assert [(one.name, one.files[0].read()) for one in run.delivered] == [("b.txt", b"a.txtcontent")]


async def test_programs_do_not_see_the_servers_environment(monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "secret")
    code = "import os; print(os.environ.get('SECRET_KEY'), os.environ['OWN'])"
    run = await testing.run(program(code, environment={"OWN": "mine"}), "hello")
    assert run.text.split() == ["None", "mine"]


async def test_links_to_other_files_are_not_delivered():
    code = "import os; os.symlink('/etc/hostname', os.environ['OUTPUT'] + '/a.txt')"
    assert (await testing.run(program(code), "hello")).delivered == []


async def test_children_that_stay_do_not_hold_the_turn():
    code = "import subprocess; subprocess.Popen(['sleep', '600']); print('done')"
    assert (await testing.run(program(code), "hello")).text == "done\n"


async def test_odd_names_of_files_are_kept_apart():
    parts = [raw_part(text.encode(), name) for text, name in (("1", "a"), ("2", "a"), ("3", ".."), ("4", "n" * 300))]
    message = testing.user_message({"parts": parts, "role": "ROLE_USER"})
    code = "import os, pathlib; print(*sorted(one.read_text() for one in pathlib.Path(os.environ['FILES']).iterdir()))"
    assert (await testing.run(program(code), message)).text == "1 2 3 4\n"


async def test_missing_program_is_said():
    run = await testing.run(agent(["./nowhere"]), "hello")
    assert run.said == "The program ./nowhere did not start: No such file or directory."


async def test_programs_may_leave_their_input_unread():
    assert (await testing.run(program("print('done')"), "x" * 1_000_000)).text == "done\n"


@pytest.mark.parametrize("ignores", ["", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"])
async def test_stop_ends_the_program_and_its_children(ignores):
    code = f"{ignores}import os, time, sys\nos.fork()\nprint(os.getpid(), flush=True)\ntime.sleep(600)"
    recorder = testing.Recorder()
    task = testing.task_for(testing.user_message("hello"), recorder)
    work = asyncio.create_task(program(code).on_request(task))
    while len(recorder.text.split()) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    work.cancel()
    await asyncio.wait({work})
    while not all(map(_is_gone, map(int, recorder.text.split()))):  # noqa: ASYNC110  # the kernel ends the second one
        await asyncio.sleep(0.01)


def _is_gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


async def test_folder_names_a_program(tmp_path):
    (tmp_path / "agent.yaml").write_text("command: ./louder.sh -n\nname: Louder\n")
    script = tmp_path / "louder.sh"
    script.write_text("#!/bin/sh\ntr a-z A-Z\n")
    script.chmod(0o755)
    handler = agent_at(str(tmp_path))
    assert handler.name == "Louder"
    assert (await testing.run(handler, "hello")).text == "HELLO"
