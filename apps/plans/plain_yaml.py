"""YAML as people mean it (YAML 1.2, core schema): `no` and `12:30` are texts, and there are no tags and no aliases.

JSON is such YAML. What is written is read as the same again.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode

TAG = "tag:yaml.org,2002:"
PLAIN = {
    "null": ("~nN\0", r"~|null|Null|NULL|"),
    "bool": ("tTfF", r"true|True|TRUE|false|False|FALSE"),
    "int": ("-+0123456789", r"[-+]?(0|[1-9][0-9]*)"),
    "float": ("-+.0123456789", r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?"),
}
"""What is not text, where it is not quoted: with which letters it begins, and its pattern."""
ODD_BREAKS = frozenset("\r\x85\u2028\u2029")  # ends of lines that would come back as others
READ = ("null", "bool", "int", "float", "str", "seq", "map")


class NoYaml(ValueError):
    """A text is no YAML; the text says why, in a sentence, and `line` where (from 1; 0: it is not known)."""

    def __init__(self, reason: str, line: int = 0) -> None:
        where = f" (line {line})" if line else ""
        super().__init__(f"It is no YAML{where}: {reason.strip().rstrip('.')}.")
        self.line = line


class _Refused(yaml.MarkedYAMLError):
    pass


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}
    yaml_constructors = {}

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        if self.check_event(yaml.AliasEvent):
            at = self.get_event().start_mark  # type: ignore[no-untyped-call]
            raise _Refused(problem="write it out, aliases (`*name`) are not read", problem_mark=at)
        return super().compose_node(parent, index)


class _Dumper(yaml.SafeDumper):
    """Texts of many lines are written as such, and nothing by alias."""

    yaml_implicit_resolvers = {}

    def ignore_aliases(self, data: Any) -> bool:
        return True


def read(text: str) -> Any:
    """What a text says: JSON. Raises NoYaml."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - it makes nothing but JSON
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise NoYaml(error.problem or "it cannot be read", mark.line + 1 if mark else 0) from None
    except RecursionError:
        raise NoYaml("it is nested too deeply") from None
    except yaml.YAMLError as error:  # a character that YAML does not have
        line = text.count("\n", 0, at) + 1 if isinstance(at := getattr(error, "position", None), int) else 0
        raise NoYaml(getattr(error, "reason", "") or str(error), line) from None
    except (LookupError, AttributeError, ValueError):  # of values such as `!!bool maybe`, and of very long numbers
        raise NoYaml("a value is not of its tag, or a number is too long") from None


def write(content: Any) -> str:
    """JSON as text, in its order."""
    written: str = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return written


def _mapping(loader: _Loader, node: Node) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if not isinstance(node, MappingNode):
        raise _Refused(problem="a mapping is expected here", problem_mark=node.start_mark)
    for key, value in node.value:
        if not isinstance(key, ScalarNode) or key.tag not in (f"{TAG}str", f"{TAG}int"):
            raise _Refused(problem="names are texts", problem_mark=key.start_mark)
        if key.value in made:
            raise _Refused(problem=f"`{key.value}` is there twice", problem_mark=key.start_mark)
        made[key.value] = loader.construct_object(value, deep=True)
    return made


def _unknown(loader: _Loader, node: Node) -> Any:
    raise _Refused(
        problem=f"there are no tags such as `{node.tag.replace(TAG, '!!')}` here", problem_mark=node.start_mark
    )


def _block(dumper: _Dumper, text: str) -> ScalarNode:
    is_odd = not ODD_BREAKS.isdisjoint(text)
    return dumper.represent_scalar(f"{TAG}str", text, style='"' if is_odd else "|" if "\n" in text else None)


for _name, (_letters, _pattern) in PLAIN.items():
    for _cls in (_Loader, _Dumper):
        _first = ["" if letter == "\0" else letter for letter in _letters]
        _cls.add_implicit_resolver(f"{TAG}{_name}", re.compile(rf"^(?:{_pattern})$"), _first)
for _name in READ:
    _Loader.add_constructor(f"{TAG}{_name}", yaml.SafeLoader.yaml_constructors[f"{TAG}{_name}"])
_Loader.add_constructor(f"{TAG}map", _mapping)
_Loader.add_constructor(None, _unknown)
_Dumper.add_representer(str, _block)
