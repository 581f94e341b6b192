"""The facts of the published contract, as a table of our own: names, types, ranges and defaults.

Where a copy of the OpenAPI document is at hand (`OAI_NB_SPEC`, or beside the repository), the table itself is
compared with it.
"""

import os
from pathlib import Path

# name: (types, minimum, maximum, default, nullable)
FACTS = {
    "model": ({"string"}, None, None, None, False),
    "prompt": ({"string", "array"}, None, None, "<|endoftext|>", True),
    "best_of": ({"integer"}, 0, 20, 1, True),
    "echo": ({"boolean"}, None, None, False, True),
    "frequency_penalty": ({"number"}, -2, 2, 0, True),
    "logit_bias": ({"object"}, None, None, None, True),
    "logprobs": ({"integer"}, 0, 5, None, True),
    "max_tokens": ({"integer"}, 0, None, 16, True),
    "n": ({"integer"}, 1, 128, 1, True),
    "presence_penalty": ({"number"}, -2, 2, 0, True),
    "seed": ({"integer"}, None, None, None, True),
    "stop": ({"string", "array"}, None, None, None, True),
    "stream": ({"boolean"}, None, None, False, True),
    "stream_options": ({"object"}, None, None, None, True),
    "suffix": ({"string"}, None, None, None, True),
    "temperature": ({"number"}, 0, 2, 1, True),
    "top_p": ({"number"}, 0, 1, 1, True),
    "user": ({"string"}, None, None, None, False),
}

REQUIRED = {"model", "prompt"}
MOST_STOPS = 4


def spec_path() -> Path | None:
    """Return where the OpenAPI document is, or None."""
    beside = Path(__file__).parents[2] / "shared" / "spec" / "completions.openapi.yaml"
    path = Path(os.environ.get("OAI_NB_SPEC", beside))
    return path if path.exists() else None
