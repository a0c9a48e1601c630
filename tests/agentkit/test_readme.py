"""What the README shows works as it stands there."""

import ast
import inspect
import re
from pathlib import Path

import agentkit

BLOCKS = re.compile(r"```python\n(.*?)```", re.S)


async def test_the_blocks_of_the_readme_run_one_after_the_other(tmp_path, monkeypatch):
    readme = (Path(agentkit.__file__).parent / "README.md").read_text()
    (tmp_path / "SKILL.md").write_text(re.search(r"```markdown\n(.*?)```", readme, re.S)[1])
    monkeypatch.chdir(tmp_path)
    scope: dict = {"__name__": "readme"}
    blocks = BLOCKS.findall(readme)
    assert len(blocks) > 4
    for number, block in enumerate(blocks):
        code = compile(block, f"README block {number}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if inspect.isawaitable(done := eval(code, scope)):
            await done
