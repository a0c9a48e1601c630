"""prompts/list and prompts/get: the prompts that the caller can use, if this installation has a library of them."""

from __future__ import annotations

import mcp_types as types

from apps.accounts.principals import Principal
from apps.doors.prompts import Library, OfferedPrompt
from apps.optional.mcp.protocol import invalid
from apps.optional.mcp.tools import read_cursor
from apps.record import wire
from apps.record.errors import InvalidFields

PROMPTS_PER_PAGE = 100


def list_prompts(library: Library, principal: Principal, cursor: str | None) -> types.ListPromptsResult:
    """A page. Raises McpError for a cursor of another list."""
    bound = wire.binding("mcp prompts", principal.user_id, principal.workspace_id)
    after = "" if cursor is None else str(read_cursor(cursor, bound))
    found = [one for one in library.offered_to(principal) if one.name > after]
    shown = found[:PROMPTS_PER_PAGE]
    more = wire.encode_cursor([shown[-1].name], bound) if len(found) > len(shown) else None
    return types.ListPromptsResult(prompts=[_prompt(one) for one in shown], next_cursor=more)


def _prompt(offered: OfferedPrompt) -> types.Prompt:
    arguments = [
        types.PromptArgument(name=one.name, description=one.about or None, required=one.required)
        for one in offered.variables
    ]
    described = offered.description or None
    return types.Prompt(name=offered.name, title=offered.title, description=described, arguments=arguments)


def get_prompt(library: Library, principal: Principal, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    """The prompt as one message of the user. Raises McpError for an unknown name and wrong arguments."""
    try:
        found = library.render(principal, params.name, params.arguments or {})
    except InvalidFields as refused:
        raise invalid(" ".join(sentence for _, sentence in refused.violations)) from None
    if found is None:
        raise invalid(f"There is no prompt {params.name[:100]!r} that you can use.")
    offered, text = found
    said = types.PromptMessage(role="user", content=types.TextContent(text=text))
    return types.GetPromptResult(description=offered.description or None, messages=[said])
