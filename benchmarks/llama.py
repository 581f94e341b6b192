"""llama.cpp over the same file, as the peer of the embedded engine: as fast as it goes on so many threads."""

from __future__ import annotations

import json
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import xllamacpp


class Llama:
    """llama.cpp's server in this process, with room for `slots` answers of `context` tokens at a time."""

    def __init__(self, path: Path, threads: int, slots: int, context: int) -> None:
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx, params.n_parallel = slots * context, slots
        params.n_gpu_layers = 0
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.port = params.verbosity = 0
        self._slots = slots
        self._server = xllamacpp.Server(params)
        self._address = self._server.listening_address
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def write(self, prompt: str, count: int, tokens: int) -> None:
        """Write `count` answers of so many tokens at the same time."""
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(lambda _: self.complete(prompt, tokens), range(count)))

    def complete(self, prompt: str | list[int], tokens: int) -> dict[str, Any]:
        """Write one answer of exactly so many tokens."""
        body = {"prompt": prompt, "n_predict": tokens, "ignore_eos": True, "cache_prompt": False}
        data = json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"{self._address}/completion", data, headers)
        with self._opener.open(request, timeout=120) as answer:
            return json.load(answer)
