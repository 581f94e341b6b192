"""The declaration against the contract, and every value that a user may try."""

import math

import contract
import numpy as np
import pytest
import yaml

from oai_nb.errors import InvalidRequestError
from oai_nb.parameters import ANY, PARAMETERS, Range, check_all

KIND_TYPES = {
    "number": {"number"},
    "integer": {"integer"},
    "boolean": {"boolean"},
    "string": {"string"},
    "prompt": {"string", "array"},
    "stop": {"string", "array"},
    "logit_bias": {"object"},
    "stream_options": {"object"},
}


def test_declares_exactly_the_parameters_of_the_contract():
    assert set(PARAMETERS) == set(contract.FACTS)


@pytest.mark.parametrize("name", contract.FACTS)
def test_declares_each_parameter_as_the_contract_does(name):
    types, minimum, maximum, default, _ = contract.FACTS[name]
    parameter = PARAMETERS[name]
    assert KIND_TYPES[parameter.kind] == types
    assert parameter.default == default
    if types <= {"number", "integer"} and name != "seed":
        assert parameter.range == (minimum, maximum)


def schema_facts(schema, definitions):
    """Flatten one property of the OpenAPI document into the form of `contract.FACTS`."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rsplit("/", 1)[1]]
    branches = schema.get("oneOf") or schema.get("anyOf") or [schema]
    types = {branch["type"] for branch in branches} - {"null"}
    nullable = schema.get("nullable", False) or any(branch["type"] == "null" for branch in branches)
    return types, schema.get("minimum"), schema.get("maximum"), schema.get("default"), nullable


@pytest.mark.skipif(contract.spec_path() is None, reason="the OpenAPI document is not at hand")
def test_our_table_of_facts_is_the_openapi_documents():
    definitions = yaml.safe_load(contract.spec_path().read_text())["components"]["schemas"]
    request = definitions["CreateCompletionRequest"]
    assert set(request["required"]) == contract.REQUIRED
    assert definitions["StopConfiguration"]["oneOf"][1]["maxItems"] == contract.MOST_STOPS
    found = {name: schema_facts(schema, definitions) for name, schema in request["properties"].items()}
    assert found == contract.FACTS


@pytest.mark.parametrize("parameter", PARAMETERS.values(), ids=PARAMETERS)
def test_every_parameter_has_words_a_group_and_an_option(parameter):
    assert parameter.help.endswith(".") and parameter.label and parameter.group
    assert parameter.option.lstrip("-").replace("-", "_") == parameter.name


@pytest.mark.parametrize("name", [name for name, p in PARAMETERS.items() if p.step])
def test_every_slider_has_a_step_that_its_range_and_default_fit(name):
    parameter = PARAMETERS[name]
    start = parameter.range.minimum
    if start is not None and parameter.default is not None:
        steps = (parameter.default - start) / parameter.step
        assert math.isclose(steps, round(steps), abs_tol=1e-9)


@pytest.mark.parametrize(
    ("name", "value", "checked"),
    [
        ("temperature", 1, 1.0),
        ("temperature", 0.1 + 0.2, 0.3),
        ("temperature", np.float32(0.7), 0.7),
        ("temperature", np.float64(2), 2.0),
        ("temperature", np.int64(2), 2.0),
        ("n", np.int64(4), 4),
        ("n", 3.0, 3),
        ("seed", -(2**63), -(2**63)),
        ("echo", np.bool_(True), True),
        ("stop", "\n", ("\n",)),
        ("stop", ["a", "b"], ("a", "b")),
        ("prompt", "", ""),
        ("prompt", ["a", "b"], ("a", "b")),
        ("prompt", np.array([1, 2]), (1, 2)),
        ("prompt", [[1], [2, 3]], ((1,), (2, 3))),
        ("logit_bias", {5: -100, "007": np.int64(3)}, {"5": -100, "7": 3}),
        ("stream_options", {"include_usage": True, "include_obfuscation": None}, {"include_usage": True}),
    ],
)
def test_takes_a_good_value_in_its_plain_form(name, value, checked):
    result = PARAMETERS[name].check(value)
    assert result == checked
    assert type(result) is type(checked)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("temperature", 3, "temperature=3 is out of range: it must be from 0 to 2"),
        ("temperature", -0.1, "from 0 to 2"),
        ("temperature", math.nan, "not finite"),
        ("temperature", math.inf, "not finite"),
        ("temperature", 10**400, "not finite"),
        ("temperature", True, "not a number"),
        ("temperature", "0,7", "temperature='0,7' is not a number"),
        ("n", "3", "not a whole number"),
        ("n", True, "not a whole number"),
        ("n", 2.5, "not a whole number"),
        ("n", 0, "from 1 to 128"),
        ("n", 129, "from 1 to 128"),
        ("max_tokens", -1, "at least 0"),
        ("logprobs", 6, "from 0 to 5"),
        ("best_of", 21, "from 0 to 20"),
        ("seed", 2**63, "out of range"),
        ("echo", 1, "neither true nor false"),
        ("echo", "yes", "neither true nor false"),
        ("model", 3, "not a string"),
        ("prompt", 5, "a list of texts"),
        ("prompt", [], "empty"),
        ("prompt", [1, "a"], "mixes kinds"),
        ("prompt", [[1], []], "mixes kinds"),
        ("prompt", [True], "mixes kinds"),
        ("prompt", [-1], "mixes kinds"),
        ("prompt", "a\ud800", "half a character"),
        ("stop", [], "up to 4 texts"),
        ("stop", ["a"] * 5, "at most 4"),
        ("stop", ["a", ""], "empty text"),
        ("stop", [1], "list of up to 4 texts"),
        ("logit_bias", [1], "not a mapping"),
        ("logit_bias", {"x": 1}, "token ids"),
        ("logit_bias", {True: 1}, "token ids"),
        ("logit_bias", {5: 101}, "101 for token 5, which is out of range"),
        ("logit_bias", {5: 1.5}, "not a whole number"),
        ("stream_options", {"usage": True}, "only include_usage and include_obfuscation"),
        ("stream_options", {"include_usage": 1}, "neither true nor false"),
    ],
)
def test_refuses_a_bad_value_in_one_line_that_names_it(name, value, words):
    with pytest.raises(InvalidRequestError) as caught:
        PARAMETERS[name].check(value)
    message = str(caught.value)
    assert message.startswith(f"{name}=") and words in message and "\n" not in message
    assert caught.value.parameter == name


@pytest.mark.parametrize("name", PARAMETERS)
def test_none_means_not_set(name):
    assert PARAMETERS[name].check(None) is None


def test_a_long_value_is_cut_in_the_message():
    with pytest.raises(InvalidRequestError) as caught:
        PARAMETERS["temperature"].check("x" * 10_000)
    assert len(str(caught.value)) < 200


def test_a_servers_limits_replace_the_contracts():
    wide = {"logprobs": Range(0, 20)}
    assert PARAMETERS["logprobs"].check(20, wide) == 20
    with pytest.raises(InvalidRequestError, match="from 0 to 20"):
        PARAMETERS["logprobs"].check(21, wide)
    assert PARAMETERS["temperature"].check(99, ANY) == 99


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"n": 3, "best_of": 2}, "best_of=2 is less than n=3"),
        ({"best_of": 2, "stream": True}, "cannot be streamed"),
        ({"stream_options": {}}, "only allowed with stream=True"),
        ({"temprature": 1}, "did you mean temperature?"),
        ({"top_k": 1}, "did you mean top_p?"),
        ({"zzz": 1}, "extra"),
    ],
)
def test_refuses_what_does_not_go_together(values, words):
    with pytest.raises(InvalidRequestError) as caught:
        check_all(values)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        {"n": 3, "best_of": 3},
        {"n": 3, "best_of": 0},
        {"n": 3, "best_of": None},
        {"stream": True, "best_of": 1},
    ],
)
def test_takes_what_goes_together(values):
    assert check_all(values) == values


def test_a_switch_has_a_spelling_that_turns_it_off():
    assert PARAMETERS["echo"].off == "--no-echo" and PARAMETERS["n"].off is None
