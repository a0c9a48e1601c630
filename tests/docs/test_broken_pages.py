"""A page that shows what does not work is found: the tests of the pages can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import PAGES, PageError, page_at, page_of
from tests.docs.reading import Reader, matches, sessions
from tests.docs.test_pages import write_python
from tests.stack import ROOT
from tests.type_checking import TypeChecked

RIGHT = """
# Page

<!-- file: broken_pages/sums.py -->
```python
def double(number: int) -> int:
    return 2 * number
```

```python
from broken_pages.sums import double

answer = double(4)
```

```python
print(answer)
assert answer == 8
```

<!-- output -->
```text
8
```

<!-- not run: it takes too long -->
```sh
sleep 100
```
"""


def follow(reader: Reader, text: str) -> None:
    page = page_of(text, "page.md")
    reader.write_files(page)
    reader.follow(page)


def test_a_right_page_passes(stranger: Reader) -> None:
    follow(stranger, RIGHT)


@pytest.mark.parametrize(
    ("right", "wrong", "error"),
    [
        ("return 2 * number", "return 3 * number", AssertionError),
        ("answer = double(4)", "answer = treble(4)", NameError),
        ("answer = double(4)", "answer = double(4", SyntaxError),
        ("```text\n8", "```text\n9", PageError),
        ("from broken_pages.sums", "from broken_pages.nowhere", ImportError),
        ("def double", "deaf double", SyntaxError),
        ("<!-- not run: it takes too long -->", "", AssertionError),
    ],
)
def test_a_word_that_is_wrong_fails(stranger: Reader, right: str, wrong: str, error: type[Exception]) -> None:
    assert right in RIGHT
    with pytest.raises(error):
        follow(stranger, RIGHT.replace(right, wrong))


def test_an_error_names_the_line_of_the_page(stranger: Reader) -> None:
    with pytest.raises(AssertionError) as failed:
        follow(stranger, RIGHT.replace("assert answer == 8", "assert answer == 9"))
    last = failed.traceback[-1]
    assert (Path(last.path).name, last.lineno + 1) == ("page.md", RIGHT[: RIGHT.index("assert answer")].count("\n") + 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```yaml\na: b\n```", "nothing executes yaml"),
        ("```\nanything\n```", "nothing executes this"),
        ("<!-- not run -->\n```sh\nmake run\n```", "needs a word more"),
        ("<!-- output -->\n```text\nhello\n```", "nothing before it that prints"),
        ("<!-- not run: not for this one -->\n\nWords.\n\n```yaml\na: b\n```", "nothing executes yaml"),
    ],
)
def test_a_block_of_which_nobody_knows_what_to_do_is_refused(text: str, said: str) -> None:
    with pytest.raises(PageError, match=said):
        page_of(text, "page.md")


def test_two_blocks_cannot_be_the_same_file(stranger: Reader) -> None:
    file = "<!-- file: broken_pages/twice.py -->\n```python\none = 1\n```\n\n"
    with pytest.raises(PageError, match=r"broken_pages/twice\.py"):
        follow(stranger, file + file)


def test_a_console_shows_commands_what_they_print_and_what_is_answered() -> None:
    console = "```console\n$ ask \\\n  more\nHow many?\n> 3\n…\n$ end\n```"
    assert list(sessions(page_of(console, "page.md").blocks[0])) == [
        ("ask \\\n  more\n", "How many?\n> …\n", "3\n"),
        ("end\n", None, ""),
    ]
    with pytest.raises(PageError, match="begins with"):
        list(sessions(page_of("```console\nask\n```", "page.md").blocks[0]))


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("hello", "hello\n", True),
        ("hello", "hello you\n", False),
        ("hello…", "hello you\n", True),
        ("…\nhello", "hello\n", True),
        ("…\nhello", "one\ntwo\nhello\n", True),
        ("…\nhello", "one\ntwo\nhello you\n", False),
        ('{…"state":"done"…', '{"id":1,"state":"done","more":[]}', True),
        ('{…"state":"done"…', '{"id":1,"state":"failed","more":[]}', False),
        ("a.c", "abc", False),
    ],
)
def test_what_is_shown_is_compared(shown: str, printed: str, same: bool) -> None:
    assert matches(shown, printed) is same


CHAIN = next(path for path in PAGES if path.name == "chain.md")


def test_a_broken_block_of_a_real_page_is_found(stranger: Reader) -> None:
    page = page_at(CHAIN)
    stranger.write_files(page)
    found = [block for block in page.blocks if block.language == "python" and "1 decided" in block.code]
    for block in page.blocks[: page.blocks.index(found[0])]:
        stranger.execute(block)
    stranger.execute(found[0])
    broken = page_of(CHAIN.read_text().replace('"1 decided,', '"2 decided,'), CHAIN.name)
    with pytest.raises(AssertionError):
        stranger.execute(broken.blocks[page.blocks.index(found[0])])


@pytest.mark.timeout(400)
def test_a_wrong_type_on_a_real_page_is_found(tmp_path: Path, type_checked: TypeChecked) -> None:
    wrong = CHAIN.read_text().replace("-> Completed | InputRequired:", "-> Completed:")
    code, told = type_checked(tmp_path, write_python([page_of(wrong, str(CHAIN.relative_to(ROOT)))], tmp_path))
    assert code == 1
    assert "return" in told


def test_a_command_that_fails_fails_the_page(stranger: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reader, "_environment", lambda reader: None)
    stranger.execute(page_of("```console\n$ echo one two\none …\n```", "page.md").blocks[0])
    for wrong in ("```sh\nexit 3\n```", "```console\n$ echo one\ntwo\n```", "```sh\necho $unset_name\n```"):
        with pytest.raises(PageError):
            stranger.execute(page_of(wrong, "page.md").blocks[0])


@pytest.mark.parametrize("value", [1, 2])
def test_what_one_reader_imported_the_next_one_does_not_find(stranger: Reader, value: int) -> None:
    file = f"<!-- file: broken_pages/value.py -->\n```python\nvalue = {value}\n```\n\n"
    follow(stranger, f"{file}```python\nfrom broken_pages.value import value\nassert value == {value}\n```")
