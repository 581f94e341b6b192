"""What a recording holds, and which of it answers a question. No I/O.

A question that is not in it is told by what is nearest to it.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from oai_nb import servers
from oai_nb.address import Address
from oai_nb.errors import NotRecordedError
from oai_nb.exchange import Exchange, model_of
from oai_nb.parameters import PARAMETERS
from oai_nb.visible import cut

# What does not change the answer, or is filled in by ourselves as far as we know the server.
_IGNORED = {"stream", "stream_options", "user"}.union(*(kind.adds for kind in servers.KINDS.values()))
_LONGEST = 60  # characters of a prompt or a value in a message
_CURE = "ask what is recorded, or record this too"


class Recorded:
    """The exchanges of a file, and which of them are played already. `find` is for the I/O loop alone."""

    def __init__(self, file: str, exchanges: Iterable[Exchange]) -> None:
        self.file = file
        self.exchanges = list(exchanges)
        self.servers = list(dict.fromkeys(one.server for one in self.exchanges))
        self._takes = list(dict.fromkeys(one.take for one in self.exchanges))
        self._same: defaultdict[tuple[str, str], list[Exchange]] = defaultdict(list)
        for one in self.exchanges:
            self._same[one.name, _core(one.body)].append(one)
        self._played: Counter[tuple[Any, ...]] = Counter()

    def kind(self, address: Address) -> servers.Kind | None:
        """Return the kind of the server that stands for this address; None where none does."""
        if address.base not in self.servers and len(self.servers) != 1:
            return None
        server = address.base if address.base in self.servers else self.servers[0]
        kind = servers.at(Address(server))
        for one in self.exchanges:
            if kind is servers.UNKNOWN and one.server == server:
                kind = _kind_seen(one)
        return kind

    def find(self, server: str, ask: str, body: Any) -> Exchange:
        """Return the next answer to a question. Raises NotRecordedError.

        It answered the same body, but for what does not change an answer, and is of the same server and
        model. For a server that the file does not have, any stands that alone answered this; and so any
        model where none is named. What was stopped is used only where nothing else is; what came in the same
        way, streamed or whole, comes first; then the newest take that has any. Several are played in the
        order in which they were asked, and then again from the first.
        """
        name, core = ask.rpartition("/")[2], _core(body)
        fitting = self._of_model(self._of_server(self._same.get((name, core), []), server), model_of(body))
        if not fitting:
            raise NotRecordedError(self._missing(server, ask, body))
        streamed = _is_streamed(body)
        best = [one for one in fitting if one.ended != "stopped"] or fitting
        best = [one for one in best if _is_streamed(one.body) == streamed] or best
        take = max((one.take for one in best), key=self._takes.index)
        best = sorted((one for one in best if one.take == take), key=lambda one: one.asked_at)
        key = (name, core, best[0].server, best[0].model, _is_streamed(best[0].body))
        self._played[key] += 1
        return best[(self._played[key] - 1) % len(best)]

    def _of_server(self, same: list[Exchange], server: str) -> list[Exchange]:
        """Return those of a server, or of the only one that answered where the file does not have it."""
        own = [one for one in same if one.server == server]
        answered = sorted({one.server for one in same})
        if own or not same or (server not in self.servers and len(answered) == 1):
            return own or same
        said = f"{self.file} has this of {' and '.join(answered)}, and not of {server}"
        raise NotRecordedError(f"{said}: connect to one that has it")

    def _of_model(self, same: list[Exchange], model: str | None) -> list[Exchange]:
        """Return those of a model; where none is named those of none, or of the only one."""
        own = [one for one in same if one.model == model]
        if own or model is not None:
            return own
        named = sorted({one.model for one in same if one.model})
        if len(named) > 1:
            raise NotRecordedError(f"{self.file} has this of {' and '.join(named)}: name one with model=")
        return same

    def _missing(self, server: str, ask: str, body: Any) -> str:
        """Say what was asked that is not there, by what is nearest to it."""
        name = ask.rpartition("/")[2]
        of_it = [one for one in self.exchanges if one.name == name and isinstance(one.body, dict)]
        of_it = [one for one in of_it if one.server == server] or of_it
        if not of_it or not isinstance(body, dict):
            return f"{self.file} holds no answer to {ask}; {_CURE}"
        prompt = _prompt(body)
        same = [one for one in of_it if _prompt(one.body) == prompt]
        if not same:
            return f"{_missing_prompt(prompt, [_prompt(one.body) for one in of_it], self.file)}; {_CURE}"
        return f"{self._missing_values(body, same)}; {_CURE}"

    def _missing_values(self, body: Mapping[str, Any], same: list[Exchange]) -> str:
        """Say which values are not there for a prompt that is."""
        differences = [_different(body, one.body) for one in same]
        nearest = min(differences, key=len)
        near = [nearest]
        if len(nearest) == 1:
            near = [each for each in differences if each.keys() == nearest.keys()]
        asked = _with((name, ours) for name, (ours, _) in nearest.items())
        recorded = dict.fromkeys(_with((name, its) for name, (_, its) in each.items()) for each in near)
        return f"{asked} is not in {self.file} for this prompt; recorded: {', '.join(recorded)}"


def _kind_seen(one: Exchange) -> servers.Kind:
    """Return the kind of server that an answer of it shows."""
    owners: list[Any] = []
    if one.name == "models":
        try:
            owners = [entry.get("owned_by") for entry in servers.models(json.loads(one.text))]
        except (ValueError, RecursionError):
            owners = []
    return servers.recognised(header=one.headers.get("server"), owners=owners)


def _missing_prompt(prompt: str, others: list[str], file: str) -> str:
    """Say where the nearest of the recorded prompts goes another way."""
    nearest = max(others, key=lambda other: _common(prompt, other))
    common = _common(prompt, nearest)
    said = f"the prompt {_shown(prompt)} is not in {file}"
    if not common:
        return f"{said}; recorded: {_shown(nearest)}"
    goes_on = f"{_shown(nearest[common:])}, not {_shown(prompt[common:])}"
    return f"{said}; after {common} characters the nearest there goes on with {goes_on}"


def _common(one: str, other: str) -> int:
    """Return how many characters two texts have in common from the start."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _with(values: Iterable[tuple[str, Any]]) -> str:
    return " with ".join(f"{name} {_shown(value)}" for name, value in values)


def _shown(value: Any) -> str:
    return cut("none" if value is None else json.dumps(value, ensure_ascii=False), _LONGEST)


def _prompt(body: Mapping[str, Any]) -> str:
    """Return what was sent to be answered, as a text."""
    prompt = body.get("prompt", body.get("content"))
    return prompt if isinstance(prompt, str) else json.dumps(prompt)


def _different(asked: Mapping[str, Any], recorded: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return what differs in two bodies, as pairs of the values."""
    pairs = {name: (_value(asked, name), _value(recorded, name)) for name in {**recorded, **asked}}
    return {
        name: (ours, its)
        for name, (ours, its) in pairs.items()
        if (ours != its if name == "model" else _core({name: ours}) != _core({name: its}))
    }


def _value(body: Mapping[str, Any], name: str) -> Any:
    """Return a parameter's value, its default where it was not sent."""
    return body.get(name, PARAMETERS[name].default if name in PARAMETERS else None)


def _core(body: Any) -> str:
    """Return what of a body decides the answer, but for the model, so that equal ones are equal texts."""
    if not isinstance(body, dict):
        return json.dumps(body)
    deciding = {name: value for name, value in body.items() if name not in _IGNORED and name != "model"}
    deciding = {name: value for name, value in deciding.items() if value != _value({}, name)}
    return json.dumps(deciding, ensure_ascii=False, sort_keys=True)


def _is_streamed(body: Any) -> bool:
    return isinstance(body, dict) and bool(body.get("stream"))
