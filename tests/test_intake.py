"""The bytes of an answer: whole or not, and the errors that come in its place."""

import json

import pytest
from wire import DONE, KEY, completion, event

from oai_nb import Request
from oai_nb.errors import BrokenStreamError, OaiNbError, ServerError
from oai_nb.intake import Intake
from oai_nb.keys import MASKED, Mask


def fed(*blocks, **parameters):
    intake = Intake(Request("x", **parameters), Mask([KEY]))
    for block in blocks:
        intake.feed(block)
    return intake


def text(intake):
    return intake.fold.completion().text


def test_a_stream_is_whole_when_the_server_says_so():
    done = fed(event("a"), DONE)
    assert done.complete and len(done.events) == 1
    done.end()


def test_a_stream_is_whole_when_every_choice_has_its_reason():
    finished = fed(event("a", finish_reason="stop"))
    finished.end()
    assert finished.complete


def test_a_choice_that_never_came_is_missed():
    half = fed(event("a", 0, finish_reason="stop"), n=2)
    assert not half.complete
    with pytest.raises(BrokenStreamError):
        half.end()


def test_what_comes_after_the_end_is_not_taken():
    assert text(fed(event("a") + DONE + event("b"))) == "a"


def test_an_error_among_the_events_keeps_what_came_before_it_in_the_same_block():
    intake = Intake(Request("x"), Mask([KEY]))
    with pytest.raises(ServerError, match="full") as caught:
        intake.feed(
            event("Hel") + b'data: {"error": {"message": "full of %b", "code": 500}}\n\n' % KEY.encode()
        )
    assert text(intake) == "Hel" and KEY not in str(caught.value) and MASKED in str(caught.value)
    assert caught.value.code == 500


@pytest.mark.parametrize(
    "error",
    [
        '{"object": "error", "message": "full", "code": 400}',
        '{"error": "full"}',
        '{"error": {"message": "full"}}',
    ],
)
def test_errors_of_any_shape_are_errors(error):
    with pytest.raises(ServerError, match="full"):
        fed(f"data: {error}\n\n".encode())
    with pytest.raises(ServerError, match="full"):
        Intake(Request("x"), Mask()).whole(error.encode())


def test_events_without_choices_are_no_errors():
    intake = fed(
        event(choices=[]), event(choices=None), event("a"), event(choices=[], usage={"total_tokens": 3})
    )
    assert text(intake) == "a" and len(intake.events) == 4


def test_a_whole_answer_with_the_wrong_content_type_is_still_an_answer():
    intake = fed(json.dumps(completion("a", finish_reason="stop"), indent=1).encode())
    intake.end()
    assert text(intake) == "a" and intake.complete


def test_a_long_answer_with_the_wrong_content_type_is_whole():
    raw = json.dumps(completion("a" * 200_000, finish_reason="stop")).encode()
    intake = fed(*(raw[start : start + 65_536] for start in range(0, len(raw), 65_536)))
    intake.end()
    assert text(intake) == "a" * 200_000


def test_what_goes_on_without_an_event_is_stopped(monkeypatch):
    monkeypatch.setattr("oai_nb.intake._MOST", 2**20)
    with pytest.raises(BrokenStreamError, match="1 MB and no event: aaa"):
        fed(*[b"a" * 2**18] * 5)


def test_an_event_with_an_error_and_a_text_keeps_the_text():
    both = json.dumps({"choices": [{"index": 0, "text": "lo"}], "error": {"message": "full"}}).encode()
    for take in (lambda intake: intake.feed(b"data: " + both + b"\n\n"), lambda intake: intake.whole(both)):
        intake = Intake(Request("x"), Mask())
        intake.feed(event("Hel"))
        with pytest.raises(ServerError, match="full"):
            take(intake)
        assert text(intake) == "Hello" and len(intake.events) == 2


@pytest.mark.parametrize(
    ("body", "said"), [(b"<html><title>Log in</title>", "Log in"), (b"busy now", "busy now")]
)
def test_what_is_no_stream_at_all_is_shown_by_its_beginning(body, said):
    with pytest.raises(BrokenStreamError, match=said):
        fed(body).end()


@pytest.mark.parametrize("body", [b"", b"\n", b": ping\n\n", b"data: "])
def test_nothing_is_a_stream_that_broke(body):
    with pytest.raises(BrokenStreamError, match="ended before"):
        fed(body).end()


def test_an_empty_answer_is_called_so():
    with pytest.raises(BrokenStreamError, match="empty"):
        Intake(Request("x"), Mask()).whole(b" \n")


def test_an_answer_without_choices_is_no_answer():
    for body in (b"{}", b'{"choices": []}', b'{"choices": null}'):
        with pytest.raises(BrokenStreamError, match="no choices"):
            Intake(Request("x"), Mask()).whole(body)


@pytest.mark.parametrize("body", [b"not json: %b", b"%b", b"{%b", b'{"choices": "%b"}'])
def test_an_excerpt_of_what_came_holds_no_key_not_even_a_part_of_it(body):
    for width in range(0, 80, 7):
        with pytest.raises(OaiNbError) as caught:
            Intake(Request("x"), Mask([KEY])).whole(b" " * 3 + b"w" * width + body % KEY.encode())
        assert KEY[:10] not in str(caught.value)
