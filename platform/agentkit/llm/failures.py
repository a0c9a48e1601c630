"""What went wrong with a language model: a sentence for people, a code for programs, the detail for operators.

This module imports the model library: import it late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pydantic_ai import exceptions as library

from agentkit.outcomes import AgentFailure

DETAIL = 2000  # characters
LATER = "Try again later."
TOLD: tuple[tuple[type[Exception], str, str], ...] = (
    (library.ModelAuthenticationError, "model_key", "The language model refuses the key. An operator must correct it."),
    (library.ModelNotFoundError, "model_unknown", "Its endpoint does not know the language model {model}."),
    (library.ModelQuotaExceededError, "model_quota", "The quota of the language model is used up."),
    (library.ModelRateLimitError, "model_busy", f"The language model has too much to do. {LATER}"),
    (library.ModelContextWindowExceededError, "too_long", "The conversation is too long for the language model."),
    (library.ModelRequestRejectedError, "model_refused", "The language model does not take this request."),
    (library.ModelRequestTimeout, "model_timeout", f"The language model did not answer in time. {LATER}"),
    (library.ModelTimeoutError, "model_timeout", f"The language model did not answer in time. {LATER}"),
    (library.ModelConnectionError, "model_unreachable", f"The language model cannot be reached. {LATER}"),
    (library.ModelAPIError, "model_failed", f"The language model failed. {LATER}"),
    (library.ContentFilterError, "model_refused", "The language model's filter keeps it from answering this."),
    (library.OutputTokenLimitExceeded, "model_cut_off", "The language model's answer is longer than it may be."),
    (library.UserError, "agent_unfit", "The agent is set up in a way that cannot work. An operator must look at it."),
    (library.UnexpectedModelBehavior, "model_unfit", "The language model gave no answer that can be used."),
)


class ModelFailed(AgentFailure):
    """A language model could not be used; the text is for people, `detail` for operators."""


@contextmanager
def told(model: str, secrets: Iterable[str] = ()) -> Iterator[None]:
    """Raise the model library's errors as `ModelFailed`, without these secrets."""
    try:
        yield
    except Exception as error:
        for kind, code, sentence in TOLD:
            if isinstance(error, kind):
                raise ModelFailed(sentence.format(model=model), code, detail_of(error, secrets)) from None
        raise


def detail_of(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """The error and what caused it, for operators."""
    chain = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__
    text = " <- ".join(f"{type(one).__name__}: {one}" for one in chain)
    for secret in filter(None, secrets):
        text = text.replace(secret, "***")
    return text[:DETAIL]
