"""Every spelling of a server's address, and none of a key."""

import pytest
from wire import KEY

from oai_nb.address import LOCAL, parse
from oai_nb.errors import ConfigurationError


@pytest.mark.parametrize(
    "text", ["", "/", "/v1", "/v1/", "/v1/completions", "/v1/completions/", "//v1//completions"]
)
def test_all_spellings_of_an_address_are_one(text):
    assert parse(f"http://h:1{text}").base == "http://h:1/v1"


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1"),
        ("https://h/openai/", "https://h/openai"),
        ("HTTP://H:80/v1", "http://h:80/v1"),
        ("  http://[::1]:8000 \n", "http://[::1]:8000/v1"),
    ],
)
def test_other_paths_and_ports_are_kept(text, base):
    assert parse(text).base == base


def test_the_root_is_the_address_without_its_version():
    assert parse("http://h:1/v1").root == "http://h:1" and parse("http://h:1/api").root == "http://h:1/api"


@pytest.mark.parametrize("text", [None, "local", " Local "])
def test_the_embedded_model_is_local(text):
    assert parse(text).base == LOCAL and parse(text).is_local and not parse(text).is_tls


@pytest.mark.parametrize("host", ["localhost", "api.localhost", "127.0.0.1", "127.9.9.9", "[::1]", "0.0.0.0"])
def test_this_machine_is_recognised(host):
    assert parse(f"http://{host}:8000").is_loopback


@pytest.mark.parametrize("host", ["localhost.example.com", "10.0.0.1", "gpu-box", "[fe80::1]"])
def test_other_machines_are_not_this_one(host):
    assert not parse(f"http://{host}:8000").is_loopback


SECRETS = [
    KEY,
    f"  {KEY} ",
    f"https://{KEY}",
    f"https://api.example.com/{KEY}/v1",
    f"https://user:{KEY}@h/v1",
    f"https://{KEY}@h/v1",
    f"https://h/v1?api-key={KEY}",
    "hf_abcdefghijklmnopqrstuv",
    "0123456789abcdef0123456789abcdef",
    "my secret",
]


@pytest.mark.parametrize("text", SECRETS)
def test_what_is_or_holds_a_key_is_refused_and_not_repeated(text):
    with pytest.raises(ConfigurationError) as caught:
        parse(text)
    secret = KEY if KEY in text else text
    assert secret not in str(caught.value) and caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize(
    "text", ["", "localhost:8000", "ftp://h", "http:/h", "http://", "http://h:port", "http://[h"]
)
def test_what_is_no_address_is_refused_with_an_example(text):
    with pytest.raises(ConfigurationError, match="http://localhost:8000/v1"):
        parse(text)


def test_names_of_hosts_are_not_taken_for_keys():
    assert parse("http://hf-inference-server-01:8000/v1").host == "hf-inference-server-01"
    assert parse("https://sk-server.example.sk/v1").host == "sk-server.example.sk"
