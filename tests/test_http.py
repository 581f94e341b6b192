"""HTTP below the client: errors in our words, trust, proxies, times to wait."""

import datetime
import email.utils
import socket
import ssl
import threading
from pathlib import Path

import httpx
import pytest
from by_hand import take_request
from wire import LIMIT, completion, whole

from oai_nb import Client, errors
from oai_nb.http import FOREIGN, pause, retry_after

FOREIGN_ERRORS = [
    kind
    for kind in map(httpx.__dict__.get, httpx.__all__)
    if isinstance(kind, type) and issubclass(kind, Exception)
]


class Failing(httpx.AsyncBaseTransport):
    """A transport that fails in one way."""

    def __init__(self, error):
        self.error = error

    async def handle_async_request(self, request):
        raise self.error


def made(kind):
    if kind is httpx.HTTPStatusError:
        return kind("why", request=None, response=None)
    return kind() if issubclass(kind, (httpx.StreamError)) and kind is not httpx.StreamError else kind("why")


@pytest.mark.parametrize("kind", FOREIGN_ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_of_httpx_becomes_one_of_ours_and_is_not_kept(kind):
    with (
        Client("http://h:1", model="m", transport=Failing(made(kind)), max_retries=0) as client,
        pytest.raises(errors.OaiNbError) as caught,
    ):
        client.complete("x")
    error = caught.value
    assert type(error) is not errors.OaiNbError and "\n" not in str(error)
    assert error.__cause__ is None and error.__context__ is None and error.completion.incomplete == str(error)


def test_the_table_names_only_errors_that_httpx_has():
    assert set(FOREIGN) <= set(FOREIGN_ERRORS)


@pytest.mark.parametrize("kind", [RuntimeError, ValueError, MemoryError, OSError])
def test_an_error_of_a_transport_s_own_ends_the_run_too(kind):
    with (
        Client("http://h:1", model="m", transport=Failing(kind("why"))) as client,
        pytest.raises(errors.BrokenStreamError, match=f"{kind.__name__}: why"),
    ):
        client.complete("x")


def test_an_error_of_ours_passes_through_a_transport():
    with (
        Client(transport=Failing(errors.WeightsError("no weights"))) as client,
        pytest.raises(errors.WeightsError, match="no weights"),
    ):
        client.complete("x")


def test_a_refused_connection_says_where_and_why_in_the_system_s_words():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        Client(f"http://127.0.0.1:{port}", model="m", max_retries=0) as client,
        pytest.raises(errors.ConnectError, match=f"http://127.0.0.1:{port}/v1.*[Rr]efused"),
    ):
        client.complete("x")


# --- proxies and trust ---


def test_this_machine_is_never_asked_through_a_proxy(wire, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    wire.on(whole(completion("ok")))
    for host in ("127.0.0.1", "localhost"):
        with Client(f"http://{host}:{wire.port}/v1", model="m") as client:
            assert client.complete("x").text == "ok"


def test_other_machines_are_asked_through_the_proxy(wire, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", wire.root)
    route = wire.on(whole(completion("ok")), path="http://models.example/v1/completions")
    with Client("http://models.example", model="m") as client:
        assert client.complete("x").text == "ok"
    assert route.requests.at(0).method == "POST"


@pytest.mark.parametrize("proxy", ["socks5://user:secret@h:1", "odd://user:secret@h:1"])
def test_a_proxy_that_cannot_be_used_is_an_error_that_does_not_repeat_it(monkeypatch, proxy):
    monkeypatch.setenv("ALL_PROXY", proxy)
    with (
        Client("http://models.example", model="m") as client,
        pytest.raises(errors.ConfigurationError, match="ALL_PROXY") as caught,
    ):
        client.complete("x")
    assert "secret" not in str(caught.value)


CERTIFICATE = Path(__file__).with_name("localhost.pem")


class Secure:
    """Answer every request over TLS, with a certificate that nobody knows; count the connections."""

    def __init__(self):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(CERTIFICATE)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self.socket.getsockname()[1]}/v1"
        self.connections = 0
        self.thread = threading.Thread(target=self.serve, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(LIMIT)

    def serve(self):
        script = whole(completion("ok", finish_reason="stop"))
        while True:
            try:
                plain, _ = self.socket.accept()
            except OSError:
                return
            self.connections += 1
            with plain:
                try:
                    with self.context.wrap_socket(plain, server_side=True) as connection:
                        take_request(connection)
                        connection.sendall(script.head + script.steps[0])
                except OSError:
                    continue


def test_https_trusts_what_the_system_trusts(monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    with Secure() as server, Client(server.url, model="m") as client:
        assert client.complete("x").text == "ok"


def test_a_certificate_that_nobody_knows_is_refused_and_not_tried_again():
    with Secure() as server, Client(server.url, model="m") as client:
        with pytest.raises(errors.ConnectError, match="certificate"):
            client.complete("x")
        assert server.connections == 1


# --- times to wait ---


def test_the_server_s_time_is_read_in_seconds_milliseconds_or_as_a_date():
    assert retry_after({"retry-after": "2"}) == 2 and retry_after({"retry-after": "0.5"}) == 0.5
    assert retry_after({"retry-after-ms": "500", "retry-after": "2"}) == 0.5
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=100)
    assert 90 < retry_after({"retry-after": email.utils.format_datetime(soon, usegmt=True)}) <= 100
    assert retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0


@pytest.mark.parametrize("headers", [{}, {"retry-after": "soon"}, {"retry-after-ms": "x"}])
def test_no_time_is_none(headers):
    assert retry_after(headers) is None


def test_pauses_grow_and_differ():
    assert 0.5 <= pause(0) <= 0.75 < 1 <= pause(1) <= 1.5
    assert len({pause(0) for _ in range(9)}) > 1
