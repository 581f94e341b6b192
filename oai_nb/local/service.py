"""The Completions API over the embedded model, pure: a body in, an answer or events out.

Where the contract is silent, this is our reading:

- Logprobs are of the model's own distribution, before bias, penalties, temperature and top_p.
- Penalties count the tokens sampled so far in the same choice, not the prompt's.
- A choice depends on its seed, its prompt's index and its own number alone, not on n: n=3 is the beginning of
  n=8. Two settings under one seed throw the same dice.
- A prompt that is empty, absent or null is read as `<|endoftext|>`, which counts as one token.
- Tokens are told only while wholly inside the text; half a character at the end is U+FFFD.
- Usage counts every token drawn, those of losing candidates, of a stop text and the end token included.
- best_of ranks by the mean logprob of the tokens told; a candidate without any comes last.

The model is asked for tokens, a cache and logits for a batch, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from oai_nb.local import answers, asked, layout, weights
from oai_nb.local.answers import Object
from oai_nb.local.asked import ApiError
from oai_nb.local.fetch import Notify, Wanted, running
from oai_nb.local.generation import Generation
from oai_nb.local.gguf import GGUF
from oai_nb.local.model import Model
from oai_nb.local.tokenizer import Tokenizer


class Service:
    """The API over one model, which it knows as `name`. Not for two threads at once.

    `note` is what is to be said beside every answer, such as that the weights are not shared.
    """

    def __init__(self, model: Model, tokenizer: Tokenizer, name: str, note: str = "") -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.name = name
        self.note = note

    def run(self, body: Any) -> Iterator[list[Object]]:
        """Begin a completion. Raises ApiError at once for a body that is not right.

        Each `next` runs at most one forward pass and gives the events to send, often none; where the body
        asks for no stream the last gives the one whole answer. Closing the iterator ends the work.
        """
        request = asked.read(body, self.tokenizer, self.model.config.context, self.name)
        generation = Generation(request, self.model, self.tokenizer)
        if request.stream:
            return answers.events(generation, self.name, self.tokenizer.display)
        return self._whole(generation)

    def complete(self, body: Any) -> Object:
        """Return the whole answer to a body that asks for no stream. Raises ApiError."""
        *_, (answer,) = self.run(body)
        return answer

    def stream(self, body: Any) -> Iterator[Object]:
        """Return the events of the answer to a body that asks for a stream. Raises ApiError."""
        return chain.from_iterable(self.run(body))

    def models(self) -> Object:
        """Return the list of the one model."""
        return {"object": "list", "data": [self.describe(self.name)]}

    def describe(self, name: str) -> Object:
        """Return the model's entry. Raises ApiError for any other name."""
        if name != self.name:
            raise ApiError(404, f"the model {name!r} does not exist", param="model", code="model_not_found")
        return {"id": name, "object": "model", "created": 0, "owned_by": "oai_nb"}

    def tokenize(self, body: Any) -> Object:
        """Return the token ids of ``{"prompt": text}``, in vLLM's shape. Raises ApiError."""
        text = body.get("prompt") if isinstance(body, dict) else None
        if not isinstance(text, str):
            raise ApiError(400, "prompt must be a text", param="prompt")
        ids = self.tokenizer.encode(text)
        return {"tokens": ids, "count": len(ids), "max_model_len": self.model.config.context}

    def _whole(self, generation: Generation) -> Iterator[list[Object]]:
        for _ in generation.steps():
            yield []
        yield [answers.whole(generation, self.name, self.tokenizer.display)]


def load(path: Path | None = None, notify: Notify = weights.say, wanted: Wanted = running) -> Service:
    """Return the API over a model's file, or over the embedded one, fetched and prepared as needed.

    It is given up when it is not `wanted` any more. Raises WeightsError, ConfigurationError.
    """
    found = path or weights.locate(notify, wanted)
    with weights.naming(found):
        with GGUF(found) as file:
            metadata = file.metadata
        config, tokenizer = layout.config(metadata), Tokenizer(metadata)
        held = weights.hold(found, notify, wanted)
    name = found.stem.lower().replace(".", "-")
    return Service(Model(config, held.matrices), tokenizer, name, held.unshared)
