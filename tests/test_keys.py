"""The mask over keys."""

import pytest
from wire import KEY

from oai_nb.keys import MASKED, Key, Mask, looks_like_a_key


def test_a_given_key_is_masked_wherever_it_stands():
    mask = Mask(["odd+key/with=signs"])
    assert mask("no odd+key/with=signs, odd%2Bkey%2Fwith%3Dsigns") == f"no {MASKED}, {MASKED}"


def test_a_short_key_is_masked_as_a_word_only():
    assert Mask(["abc"])("key abc, not abcd") == f"key {MASKED}, not abcd"


@pytest.mark.parametrize("key", ["key", "odd [key] here", "secret-of-mine"])
def test_masking_twice_is_masking_once(key):
    mask = Mask([key])
    once = mask(f"a {key} and Bearer {key}")
    assert mask(once) == once == f"a {MASKED} and Bearer {MASKED}"


def test_what_has_no_length_is_no_secret():
    assert Mask(["a", "xy"])("a problem of xy") == "a problem of xy"


def test_what_follows_bearer_and_keys_of_a_known_form_are_masked_without_being_known():
    mask = Mask()
    assert mask("header 'Authorization: Bearer xyz'") == f"header 'Authorization: Bearer {MASKED}'"
    assert mask(f"provided: {KEY}.") == f"provided: {MASKED}."


def test_the_key_in_the_environment_is_masked(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret-of-mine")
    assert Mask()("secret-of-mine") == MASKED


def test_json_is_masked_to_its_leaves():
    mask = Mask(["secret-of-mine"])
    value = {"error": ["secret-of-mine", {"secret-of-mine": None}], "code": 1}
    assert mask.json(value) == {"error": [MASKED, {MASKED: None}], "code": 1}


@pytest.mark.parametrize(
    "data",
    [KEY, f'{{"a": "x{KEY}"}}', f'"{KEY}"'.replace("k", "\\u006b").replace("C", "\\u0043")],
)
def test_a_known_key_is_found_in_a_text_and_in_json_however_it_is_escaped(data):
    mask = Mask([KEY, "word", "a/key/of/slashes"])
    assert mask.holds(data.encode()) and mask.holds(b"a\\/key\\/of\\/slashes")
    assert not mask.holds(data[:-6].encode()) and not mask.holds(b"a word, \\u0041 and \\/")


@pytest.mark.parametrize("escape", ["\\n", "\\t", "\\u000a", " "])
@pytest.mark.parametrize("key", [KEY, f"Bearer {KEY[3:]}"])
def test_a_key_of_a_known_form_is_masked_behind_an_escape_of_json_too(escape, key):
    text = f'{{"prompt": "it is{escape}{key}"}}'
    assert KEY[3:] in text and KEY[3:] not in Mask().covered(text) and KEY[3:] not in Mask()(text)
    assert Mask().covered(f"task-{KEY[3:]} and di{KEY}") == f"task-{KEY[3:]} and di{KEY}"


def test_a_long_text_of_beginnings_of_keys_is_no_long_work():
    for text in ("sk-" * 300_000, "Bearer " * 300_000, "Bearer" + " " * 900_000):
        assert Mask([KEY]).covered(text) == text


def test_a_key_is_masked_in_the_part_where_it_begins():
    parts = ["a ", KEY[:5], "", KEY[5:9], KEY[9:] + KEY + " b " + KEY[:3], KEY[3:], "c"]
    assert Mask([KEY]).covered_parts(parts) == ["a ", MASKED, "", "", f"{MASKED} b {MASKED}", "", "c"]
    assert Mask([KEY]).covered_parts([f"{KEY} "] * 5000) == [f"{MASKED} "] * 5000


def test_no_key_masks_nothing():
    assert Mask([None, ""])("task-based texts stay") == "task-based texts stay"


def test_a_key_is_its_text_and_shows_nothing_of_it():
    key = Key.of(f" {KEY}\n")
    assert key == KEY and f"Bearer {key}" == f"Bearer {KEY}" and repr({"key": key}) == f"{{'key': {MASKED}}}"
    assert Key.of(None) is None and not Key.of(" ")


@pytest.mark.parametrize("text", [KEY, "gsk_0123456789abcdefgh", "0123456789abcdef0123456789abcdef"])
def test_keys_are_recognised(text):
    assert looks_like_a_key(text)


@pytest.mark.parametrize("text", ["localhost:8000", "api.openai.com/v1", "sk-server", "local"])
def test_addresses_are_not_taken_for_keys(text):
    assert not looks_like_a_key(text)
