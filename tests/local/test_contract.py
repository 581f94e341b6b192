"""The embedded server against the schema of the OpenAPI document, where that is at hand.

The schema is stricter than its own examples. Allowed beyond it: null as the finish_reason of an event that is
not its choice's last, null for the first echoed token, and `usage: null` in events before the last.
"""

import contract
import jsonschema
import pytest
import yaml

from oai_nb.local import service

pytestmark = pytest.mark.skipif(contract.spec_path() is None, reason="the OpenAPI document is not at hand")


def nullable(schema):
    """Say `nullable: true` in JSON Schema's words."""
    if isinstance(schema, list):
        return [nullable(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {name: nullable(item) for name, item in schema.items() if name != "nullable"}
    return {"anyOf": [plain, {"type": "null"}]} if schema.get("nullable") else plain


@pytest.fixture(scope="module")
def schema():
    document = nullable(yaml.safe_load(contract.spec_path().read_text()))
    answer = document["components"]["schemas"]["CreateCompletionResponse"]
    choice = answer["properties"]["choices"]["items"]["properties"]
    choice["finish_reason"] = {"anyOf": [choice["finish_reason"], {"type": "null"}]}
    lists = choice["logprobs"]["anyOf"][0]["properties"]
    for name in ("token_logprobs", "top_logprobs"):
        lists[name]["items"] = {"anyOf": [lists[name]["items"], {"type": "null"}]}
    answer["properties"]["usage"] = {"anyOf": [answer["properties"]["usage"], {"type": "null"}]}
    return answer | {"components": document["components"]}


@pytest.fixture(scope="module")
def served():
    return service.load()


BODIES = [
    {"prompt": "The sea", "max_tokens": 3, "temperature": 0},
    {"prompt": ["a", "b"], "max_tokens": 2, "n": 2, "logprobs": 5, "echo": True},
    {"prompt": "x", "max_tokens": 3, "best_of": 3, "logprobs": 0},
    {"prompt": [504, 3575], "max_tokens": 0, "echo": True, "logprobs": 2},
]


@pytest.mark.parametrize("body", BODIES)
def test_a_whole_answer_is_valid(body, served, schema):
    answer = served.complete(body)
    jsonschema.validate(answer, schema)
    assert all(choice["finish_reason"] for choice in answer["choices"]) and answer["usage"]


@pytest.mark.parametrize("body", [body for body in BODIES if "best_of" not in body])
def test_every_event_is_valid_and_the_last_of_a_choice_has_a_reason(body, served, schema):
    body = body | {"stream": True, "stream_options": {"include_usage": True}}
    events = [event for event in served.stream(body) if isinstance(event, dict)]
    assert events
    for event in events:
        jsonschema.validate(event, schema)
    last = {choice["index"]: choice["finish_reason"] for event in events for choice in event["choices"]}
    assert all(last.values()) and events[-1]["usage"]
