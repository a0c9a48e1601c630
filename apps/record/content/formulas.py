"""Formulas in Markdown: `$…$`, `$$…$$`, `\\(…\\)`, `\\[…\\]` and TeX's environments, as MathML.

The converter's output is not trusted: it is read as XML and written again with known elements and attributes only. A
formula that cannot be converted is shown as it was written.
"""

from __future__ import annotations

import re
from html import escape, unescape
from xml.etree import ElementTree

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from math_core import LatexError, LatexToMathML

LONGEST_FORMULA = 4_000  # characters; the converter's stack grows with nesting
DEEPEST = 30  # braces within braces
MOST_LINES = 100  # of a formula that is a paragraph

NODE = "formula"  # the type of a formula's token
ENVIRONMENTS = r"(?:equation|align|alignat|gather|multline|eqnarray)\*?"
OPENING = re.compile(rf"\$\$|\\\[|\\begin\{{({ENVIRONMENTS})\}}")
# A price is no formula: no space inside the dollars, no letter or digit outside, and no code between them.
INLINE = re.compile(r"\$(?![\s$])((?:\\.|[^\\$`\n]|\n(?!\n)){1,1000}?)(?<!\s)\$(?![\w$])", re.DOTALL)
PAIRS = {"\\(": "\\)", "\\[": "\\]", "$$": "$$"}
DEFINING = re.compile(r"\\(?:(?:re|provide)?newcommand|providecommand|[egx]?def|let|DeclareMathOperator)(?![A-Za-z])")

SYNONYMS: list[tuple[re.Pattern[str], str]] = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\(?:mbox|hbox)(?![A-Za-z])", r"\\text"),
        (r"\\pmb(?![A-Za-z])", r"\\bm"),
        (r"\\label\{[^{}]*\}|\\(?:tiny|small|normalsize|large|Large|LARGE|huge)(?![A-Za-z])", ""),
        (r"\\tag\*?\{([^{}]*)\}", r"\\qquad\\text{(\1)}"),
        (r"\\substack\{([^{}]*)\}", r"{\\scriptstyle\\begin{gathered}\1\\end{gathered}}"),
        (r"(\\(?:begin|end))\{smallmatrix\}", r"\1{matrix}"),
        (r"\\begin\{alignat\*?\}\s*\{\d+\}", r"\\begin{aligned}"),
        (r"(\\(?:begin|end))\{(?:split|align\*?|alignat\*?|eqnarray\*?)\}", r"\1{aligned}"),
        (r"(\\(?:begin|end))\{(?:gather|multline)\*?\}", r"\1{gathered}"),
        (r"\\(?:begin|end)\{equation\*?\}", ""),
    )
]
"""What models write and the converter does not know, in its words. Equations have no numbers of our own."""

ELEMENTS = {
    "menclose", "merror", "mfrac", "mi", "mmultiscripts", "mn", "mo", "mover", "mpadded", "mphantom",
    "mprescripts", "mroot", "mrow", "ms", "mspace", "msqrt", "mstyle", "msub", "msubsup", "msup", "mtable", "mtd",
    "mtext", "mtr", "munder", "munderover", "none",
}  # fmt: skip
WORDS = frozenset(("mi", "mn", "mo", "ms", "mtext"))  # elements whose content is text
ATTRIBUTES = {
    "accent", "accentunder", "columnspan", "depth", "display", "displaystyle", "fence", "form", "height",
    "largeop", "linethickness", "lspace", "mathcolor", "mathvariant", "maxsize", "minsize", "movablelimits",
    "notation", "rowspan", "rspace", "scriptlevel", "separator", "stretchy", "symmetric", "voffset", "width",
}  # fmt: skip
NAMED_CHARACTER = re.compile(r"&(?!lt;|gt;|amp;|quot;)\w+;")  # HTML's, which XML does not know
VALUE = re.compile(r"[\w.#% -]{0,60}", re.ASCII)
CLASSES = {
    "text-align: right": "to-right",
    "text-align: left": "to-left",
    "padding-left: 0": "joins-left",
    "padding-right: 0": "joins-right",
    "padding-left:1em": "apart",
    "border-left: 0.05em solid currentcolor": "line-left",
    "border-right: 0.05em solid currentcolor": "line-right",
    "border-top: 0.05em solid currentcolor": "line-above",
}
"""Our Content-Security-Policy allows no styles in attributes: the converter's are classes of `prose.css`."""
COLOR = re.compile(r"color:(#[0-9A-F]{6})")

_converter = LatexToMathML(fancy_error=False, max_expansions=50, allow_unreliable_rendering=True)


def formula_plugin(md: MarkdownIt) -> None:
    """Makes tokens of the type NODE; `token.content` is the TeX, `token.markup` what was around it."""
    md.inline.ruler.before("escape", "formula", _inline_rule)
    md.block.ruler.before("fence", "formula", _block_rule, {"alt": ["paragraph", "reference", "blockquote", "list"]})


def _inline_rule(state: StateInline, silent: bool) -> bool:
    found = _formula_at(state.src, state.pos, state.posMax)
    if found is None:
        return False
    tex, end, markup = found
    if not silent:
        token = state.push(NODE, "", 0)
        token.content, token.markup = tex, markup
    state.pos = end
    return True


def _formula_at(text: str, at: int, end: int) -> tuple[str, int, str] | None:
    """The TeX of a formula that begins here, where it ends, and its opening sign."""
    sign = text[at : at + 2]
    if closing := PAIRS.get(sign):
        closed = text.find(closing, at + 2, min(end, at + LONGEST_FORMULA))
        tex = text[at + 2 : closed]
        return (tex, closed + 2, sign) if closed > 0 and tex.strip() else None
    if not sign.startswith("$") or (at and (text[at - 1].isalnum() or text[at - 1] == "$")):
        return None
    found = INLINE.match(text, at, end)
    return (found[1], found.end(), "$") if found else None


def _block_rule(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """A formula that begins and ends a line: nothing in it is a heading, a list or a table."""
    begin = state.bMarks[start_line] + state.tShift[start_line]
    opening = OPENING.match(state.src, begin, state.eMarks[start_line])
    if opening is None or state.is_code_block(start_line):
        return False
    closing = f"\\end{{{opening[1]}}}" if opening[1] else PAIRS[opening[0]]
    if state.src.find(closing, opening.end(), opening.end() + LONGEST_FORMULA) < 0:
        return False
    lines: list[str] = []
    for line in range(start_line, min(end_line, start_line + MOST_LINES)):
        from_ = opening.end() if line == start_line else state.bMarks[line] + min(state.tShift[line], state.blkIndent)
        text = state.src[from_ : state.eMarks[line]]
        if line > start_line and state.sCount[line] < state.blkIndent and text.strip():
            return False
        head, sign, rest = text.partition(closing)
        lines.append(head)
        if sign:
            tex = "\n".join(lines)
            if rest.strip(" \t.,;") or not tex.strip() or len(tex) > LONGEST_FORMULA:
                return False  # it may be a formula within a paragraph
            if not silent:
                _push_block(state, start_line, line + 1, opening[0] + tex + closing if opening[1] else tex, opening[0])
            return True
    return False


def _push_block(state: StateBlock, start_line: int, next_line: int, tex: str, markup: str) -> None:
    state.line = next_line
    token = state.push(NODE, "", 0)
    token.block = True
    token.content, token.markup, token.map = tex, markup, [start_line, next_line]


def formula_html(tex: str, markup: str) -> str:
    """Safe HTML: MathML, or the formula as it was written."""
    is_display = not markup.startswith(("$", "\\(")) or markup == "$$"
    math = mathml(tex, is_display=is_display)
    if math is None:
        return written_html(tex, markup)
    return f'<span class="formula display" tabindex="0">{math}</span>' if is_display else math


def written_html(tex: str, markup: str) -> str:
    """The formula as it was written."""
    written = tex if markup.startswith("\\begin") else f"{markup}{tex}{PAIRS.get(markup, markup)}"
    return f'<code class="tex">{escape(written)}</code>'


def mathml(tex: str, *, is_display: bool = False) -> str | None:
    """A `math` element whose `alttext` is the TeX; None if the formula cannot be converted."""
    if len(tex) > LONGEST_FORMULA or _depth(tex) > DEEPEST or DEFINING.search(tex):
        return None
    plain = tex
    for pattern, replacement in SYNONYMS:
        plain = pattern.sub(replacement, plain)
    try:
        made = _converter.convert_with_local_state(plain.strip(), displaystyle=is_display)
        made = NAMED_CHARACTER.sub(lambda found: unescape(found[0]), made)
        inside = "".join(_written(one) for one in ElementTree.fromstring(made))  # noqa: S314  # no entities, our converter's
    except (LatexError, ElementTree.ParseError, UnknownElement):
        return None
    display = ' display="block"' if is_display else ""
    return f'<math{display} alttext="{escape(" ".join(tex.split()))}">{inside}</math>'


class UnknownElement(Exception):
    """The converter made an element that is not on the list."""


def _depth(tex: str) -> int:
    depth = deepest = 0
    for sign in tex:
        if sign in "{[":
            depth += 1
            deepest = max(deepest, depth)
        elif sign in "}]":
            depth -= 1
    return deepest


def _written(element: ElementTree.Element) -> str:
    """The element with what is known of its attributes; text elements contain text only."""
    name = element.tag
    if name not in ELEMENTS:
        raise UnknownElement
    inside = escape("".join(element.itertext())) if name in WORDS else "".join(map(_written, element))
    kept = {key: value for key, value in element.attrib.items() if key in ATTRIBUTES and VALUE.fullmatch(value)}
    style = element.get("style", "")
    if color := COLOR.search(style):
        kept["mathcolor"] = color[1]
    classes = [CLASSES[one.strip()] for one in style.split(";") if one.strip() in CLASSES]
    if name == "menclose":
        classes += [one for one in kept.get("notation", "").split() if one.isalpha()]
    if classes:
        kept["class"] = " ".join(classes)
    return f"<{name}{''.join(f' {key}="{value}"' for key, value in kept.items())}>{inside}</{name}>"
