"""The default client: which server, which key, in which order."""

import inspect
import subprocess
import sys

import pytest
from wire import KEY, completion, failure, whole

import oai_nb
from oai_nb import errors, settings
from oai_nb.configuration import Configuration, configuration
from oai_nb.deadline import Limits
from oai_nb.settings import complete, connect, default_client, stream

OK = whole(completion("ok", finish_reason="stop"))


@pytest.fixture(autouse=True)
def anew(monkeypatch):
    monkeypatch.setattr(settings, "_connected", None)
    monkeypatch.setattr(settings, "_others", {})
    yield
    for name, value in vars(Configuration()).items():
        setattr(configuration, name, value)


def address():
    return default_client().server.base_url


@pytest.fixture
def environment(monkeypatch):
    def set_environment(url=None, key=None):
        for name, value in (("OPENAI_BASE_URL", url), ("OPENAI_API_KEY", key)):
            monkeypatch.delenv(name, raising=False)
            if value is not None:
                monkeypatch.setenv(name, value)

    return set_environment


def key_sent(wire, client):
    """Return the key that a client sends."""
    route = wire.on(OK)
    client.complete("x", model="m")
    return route.requests.at(0).headers.get("authorization")


# --- the order ---


def test_a_server_is_chosen_by_argument_then_configuration_then_environment(environment):
    environment(url="http://environment", key="k")
    assert address() == "http://environment/v1"
    configuration.base_url = "http://configuration"
    assert address() == "http://configuration/v1"
    connect("http://argument")
    assert address() == "http://argument/v1"
    configuration.base_url = "http://later"
    assert address() == "http://argument/v1"


def test_a_key_alone_means_openai(environment):
    environment(key="k")
    assert address() == "https://api.openai.com/v1"
    environment()
    assert connect(api_key="k").server.base_url == "https://api.openai.com/v1"


def test_a_key_with_the_environment_s_address_goes_there(wire, environment):
    environment(url=wire.url)
    assert key_sent(wire, connect(api_key="mine")) == "Bearer mine"


def test_connecting_without_arguments_goes_back_to_the_configuration():
    connect("http://argument")
    configuration.base_url = "http://configuration"
    assert connect().server.base_url == "http://configuration/v1" == address()


def test_a_change_of_the_environment_is_noticed_and_an_unchanged_one_keeps_the_client(environment):
    environment(url="http://one")
    first = default_client()
    assert default_client() is first
    environment(url="http://two")
    assert address() == "http://two/v1"


def test_a_connection_that_is_refused_leaves_the_default_as_it_was():
    connect("http://argument")
    with pytest.raises(errors.ConfigurationError):
        connect(KEY)
    assert address() == "http://argument/v1"


def test_an_empty_address_is_none_in_the_environment_and_a_fault_in_a_call(environment):
    environment(url="", key="")
    assert address() == "local"
    with pytest.raises(errors.ConfigurationError):
        connect("")


def test_the_model_and_the_time_limit_follow_the_configuration_also_of_a_connected_client():
    for make in (default_client, lambda: connect("http://h")):
        client = make()
        configuration.model, configuration.timeout = "m", 5
        assert default_client() is client and (client.model, client.timeout) == ("m", Limits(total=5))
        configuration.model = configuration.timeout = None
        assert default_client() is client and (client.model, client.timeout.total) == (None, None)


def test_what_a_client_has_of_its_own_stays():
    client = connect("http://h", model="mine")
    client.timeout = Limits(idle=1)
    configuration.model = "m"
    assert default_client().model == "mine" and default_client().timeout == Limits(idle=1)


def test_what_is_set_on_the_default_client_holds_until_the_configuration_changes():
    for make in (default_client, lambda: connect("http://h"), lambda: connect("http://h", model="own")):
        make().model = "mine"
        default_client().timeout = 7
        assert (default_client().model, default_client().timeout) == ("mine", Limits(total=7))
    connect("http://h").model = "mine"
    configuration.model = "later"
    assert default_client().model == "later"


def test_a_server_named_for_once_is_not_the_default_and_keeps_its_client():
    connect("http://default", api_key="k")
    other = settings.client_of("http://other")
    assert settings.client_of("http://other") is other and address() == "http://default/v1"
    assert settings.client_of("http://default/") is default_client()
    with pytest.raises(errors.ConfigurationError):
        settings.client_of(KEY)


def test_known_models_are_those_that_were_asked_for(wire):
    wire.on(whole({"data": [{"id": "a"}]}), path="/v1/models")
    connect(wire.url)
    assert settings.known_models() == []
    default_client().models()
    assert settings.known_models() == ["a"]


def test_there_are_no_known_models_where_there_can_be_no_client(environment):
    environment(url="notaurl")
    with pytest.raises(errors.ConfigurationError):
        default_client()
    assert settings.known_models() == []


def test_a_default_client_that_was_closed_is_made_anew():
    first = default_client()
    first.close()
    assert default_client() is not first and not default_client().closed


# --- the key ---


def test_the_environment_s_key_goes_to_the_environment_s_server(wire, environment):
    environment(url=wire.root, key="theirs")
    assert key_sent(wire, default_client()) == "Bearer theirs"
    assert key_sent(wire, connect(wire.url)) == "Bearer theirs"
    assert key_sent(wire, connect(wire.url, api_key="mine")) == "Bearer mine"


def test_the_environment_s_key_goes_to_no_other_server(wire, environment):
    environment(key="openai's")
    assert key_sent(wire, connect(wire.url)) is None
    configuration.base_url = wire.url
    assert key_sent(wire, connect()) is None
    wire.on(failure(401, "who are you"))
    with pytest.raises(errors.AuthenticationError, match="no key was sent: give api_key="):
        complete("x", model="m")


def test_the_environment_s_key_is_masked_also_where_it_was_not_sent(wire, environment):
    environment(key="key-of-the-environment")
    wire.on(failure(400, "odd: key-of-the-environment"))
    connect(wire.url)
    with pytest.raises(errors.ServerError) as caught:
        complete("x", model="m")
    assert "key-of-the-environment" not in str(caught.value)


# --- the functions ---


def test_complete_and_stream_ask_the_default_client(wire):
    route = wire.on(OK)
    connect(wire.url, model="m", headers={"X-Odd": "1"})
    assert complete("x", temperature=0).text == oai_nb.complete("x").text == "ok"
    with stream("x") as running:
        assert running.result().text == "ok"
    assert [seen.headers["x-odd"] for seen in route.requests] == ["1"] * 3


def test_their_signatures_show_every_parameter():
    for function in (complete, stream):
        shown = inspect.signature(function)
        assert {"prompt_or_request", "temperature", "stop", "extra"} <= set(shown.parameters)
    with pytest.raises(errors.InvalidRequestError, match="did you mean max_tokens"):
        complete("x", max_token=3)


def test_importing_the_settings_imports_no_http():
    code = (
        "import sys, oai_nb.settings; print([m for m in ('httpx', 'numpy', 'msgspec') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
