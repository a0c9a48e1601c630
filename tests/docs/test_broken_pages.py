"""The tests of pages fail for a broken page."""

from __future__ import annotations

import pytest

from tests.docs.pages import PageError, page_of
from tests.docs.reading import Reader

pytestmark = pytest.mark.slow("documentation is executed")
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


WRONG = [
    ("return 2 * number", "return 3 * number", AssertionError),
    ("answer = double(4)", "answer = treble(4)", NameError),
    ("```text\n8", "```text\n9", PageError),
    ("from broken_pages.sums", "from broken_pages.nowhere", ImportError),
    ("<!-- not run: it takes too long -->\n```sh\nsleep 100", "```sh\nexit 3", PageError),
    ("<!-- not run: it takes too long -->\n```sh\nsleep 100", "```console\n$ echo one\ntwo", PageError),
    ("<!-- not run: it takes too long -->\n```sh", "```yaml", PageError),
    ("<!-- not run: it takes too long -->", "<!-- not run -->", PageError),
]


@pytest.mark.parametrize(("right", "wrong", "error"), WRONG)
def test_a_word_that_is_wrong_fails(
    stranger: Reader, monkeypatch: pytest.MonkeyPatch, right: str, wrong: str, error: type[Exception]
) -> None:
    monkeypatch.setattr(Reader, "_environment", lambda reader: None)
    assert right in RIGHT
    with pytest.raises(error):
        follow(stranger, RIGHT.replace(right, wrong))
