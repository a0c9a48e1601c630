"""JSON with a state changes the task only where it is meant to."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit import (
    AuthRequired,
    Completed,
    Failed,
    InputRequired,
    InvalidAnswer,
    PaymentRequired,
    Rejected,
    as_outcome,
    testing,
)
from agentkit.directives import MAX_TEXT_LENGTH, directive_in

ASK = '{"state": "input-required", "prompt": "Which day?"}'
AUTH = '{"state": "auth-required", "prompt": "Your key?", "auth_type": "api_key", "service": "calendar"}'
PRETTY = '{\n  "state": "input-required",\n  "prompt": "Which day?"\n}'
FENCED = f"```json\n{PRETTY}\n```"

MEANT = {
    "json alone": ASK,
    "underscores": ASK.replace("input-required", "input_required"),
    "an object in an object": f'{{"response": {ASK}}}',
    "more members": ASK[:-1] + ', "reason": "no day given", "n": 3}',
    "fenced": FENCED,
    "fenced without a language": f"```\n{ASK}\n```",
    "words around": f"I need more. {ASK} Thank you!",
    "a paragraph of its own": f"I need more.\n\n{ASK}\n\nThank you!",
    "inline code with json elsewhere": f'You wrote `{{"day": 1}}`. {ASK}',
    "a link in the prompt": ASK.replace("Which day?", "See [this](https://x.test/) *now*"),
}

SHOWN = {
    "no json": "Which day?",
    "inline code": f"To ask, return `{ASK}` and wait.",
    "indented": f"I need more:\n\n    {ASK}\n",
    "fenced, explained before and after": f"An agent can ask:\n\n{FENCED}\n\nand then goes on.",
    "one fence of two": f"```json\n{{}}\n```\n\n{FENCED}",
    "in a quotation": f"> {ASK}",
    "two at once": f"Either {ASK} or {AUTH}",
    "a state that asks nothing": '{"state": "working", "prompt": "Hm"}',
    "completed data": '{"state": "completed", "message": "ok", "rows": 3}',
    "failed amid words": 'It said {"state": "failed", "message": "no"} to me.',
    "longer than is read": "word " * MAX_TEXT_LENGTH + ASK,
}


def test_json_that_is_meant_asks_the_question():
    for name, text in MEANT.items():
        outcome = as_outcome(text)
        assert isinstance(outcome, InputRequired), name
        assert any(words in outcome.message for words in ("Which day?", "day", "[this]")), name
        assert "state" not in outcome.message, name
        more = {"reason": "no day given", "n": 3} if name == "more members" else {}
        assert outcome.metadata in (more, more | {"prompt": outcome.message}), name


def test_json_that_is_only_shown_is_the_answer():
    for name, text in SHOWN.items():
        outcome = as_outcome(text)
        assert isinstance(outcome, Completed), name
        assert (outcome.message, outcome.artifacts[0].parts[0]["text"]) == (text, text), name


def test_further_keys_are_kept_with_the_message():
    for value in (AUTH, json.loads(AUTH), f"Sorry!\n\n{AUTH}", {"response": json.loads(AUTH)}):
        outcome = as_outcome(value)
        assert isinstance(outcome, AuthRequired)
        assert (outcome.message, outcome.slot) == ("Your key?", "credential")
        assert outcome.metadata == {"prompt": "Your key?", "auth_type": "api_key", "service": "calendar"}


def test_what_is_said_besides_the_state_is_used():
    form = {"type": "string", "enum": ["a", "b"]}
    asked = as_outcome({"state": "input-required", "prompt": "Which?", "slot": "letter", "schema": form})
    assert asked == InputRequired("Which?", "letter", form, {"prompt": "Which?"})
    assert as_outcome('Which day, please? {"state": "input-required"}').message == "Which day, please?"
    assert as_outcome('Which day?\n```json\n{"state": "input-required"}\n```').message == "Which day?"
    assert as_outcome({"state": "input-required"}).message == "Please say more."
    assert as_outcome({"state": "failed", "message": "No.", "code": "gone"}) == Failed("No.", "gone")
    assert as_outcome('{"state": "rejected", "prompt": "Not mine."}') == Rejected("Not mine.")
    done = as_outcome('```json\n{"state": "completed", "message": "All done."}\n```')
    assert (done.message, done.artifacts[0].parts[0]["text"]) == ("All done.", "All done.")


PRICE = {"amount": 10_000, "asset": "0xUSDC", "network": "base", "pay_to": "0xSeller"}


def test_only_dicts_with_a_price_ask_for_payment():
    wanted = {"state": "payment-required", "prompt": "One cent, please.", **PRICE, "description": "An answer"}
    assert as_outcome(wanted) == PaymentRequired("One cent, please.", **PRICE, description="An answer")
    assert as_outcome({"state": "PAYMENT_REQUIRED", **PRICE}).amount == "10000"
    assert isinstance(as_outcome(json.dumps(wanted)), Completed), "text asks for no payment"
    for changed in ({"amount": "1.5"}, {"asset": ""}, {"seconds": None, "pay_to": None}):
        with pytest.raises(InvalidAnswer, match="payment"):
            as_outcome({"state": "payment-required", **PRICE, **changed})
    with pytest.raises(InvalidAnswer, match="amount"):
        as_outcome({"state": "payment-required", "prompt": "Pay!"})


def test_what_a_dict_has_besides_is_delivered():
    done = as_outcome({"state": "completed", "message": "Done", "data": [1], "metadata": {"a": 1}})
    assert (done.message, done.artifacts[0].parts, done.metadata) == ("Done", [{"data": [1]}], {"a": 1})
    for data in ({"state": "Bavaria"}, {"state": "completed", "rows": 3}, {"tasks": [json.loads(ASK)]}):
        assert as_outcome(data).artifacts[0].parts == [{"data": data}]
    assert as_outcome({"state": "failed", "message": "No", "rows": 3}) == Failed("No", metadata={"rows": 3})


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ({"state": "working", "message": "Hm"}, "auth-required, payment-required, completed, failed, rejected"),
        ({"state": "complete", "data": 1}, "Did you mean 'completed'"),
        ({"sate": "failed", "message": "Hm"}, "Did you mean 'state'"),
        ({"state": "input-required", "message": "When?", "slot": {"name": "date"}}, "The slot of a dict that asks is"),
    ],
)
def test_a_mistaken_directive_is_the_authors_error(value, hint):
    with pytest.raises(InvalidAnswer, match=hint):
        as_outcome(value)


async def test_streamed_text_is_judged_at_its_end():
    async def letters(text):
        for letter in ASK:
            yield letter

    def words(text):
        for word in AUTH.split(" "):
            yield f"{word} "

    run = await testing.run(letters, "hi")
    assert isinstance(run.outcome, InputRequired)
    assert run.text == ASK
    assert isinstance((await testing.run(words, "hi")).outcome, AuthRequired)


def test_text_made_to_cost_much_does_not():
    for text in ('{"state":' * 6000, "{" * MAX_TEXT_LENGTH, '{"a":' * 10_000 + '"state"', "`{" * 20_000 + "state"):
        assert directive_in(text) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.sampled_from(["input-required", "failed", ASK, ""]) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["state", "prompt", "message", "response", "schema"]), inner, max_size=4)
    ),
    max_leaves=8,
)
PIECES = st.sampled_from(
    ["```", "```json\n", "`", "\n\n", "    ", "> ", "- ", "{", "}", '"', "\\", ASK, AUTH, "state", "\x00"]
)


@given(st.lists(PIECES | st.text(max_size=5), max_size=12).map("".join) | JSON.map(json.dumps))
def test_no_text_raises(text):
    assert as_outcome(text).parts
