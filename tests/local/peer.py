"""llama.cpp as an independent engine, and the same question asked of ours."""

import json
import urllib.request

import numpy as np
import xllamacpp

from oai_nb.local.model import chunks


def read(model, ids):
    """Return the logits after each token of a prompt, and its cache."""
    cache = model.cache(len(ids))
    return np.concatenate([model.logits(model.read(part, cache)) for part in chunks(ids)]), cache


class Peer:
    """llama.cpp over one GGUF file, spoken to on 127.0.0.1; no half precision in its cache and attention."""

    def __init__(self, path, context):
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx = context
        params.n_gpu_layers = 0
        params.cpuparams.n_threads = 1
        params.port = 0
        params.verbosity = 0
        params.warmup = False
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self._server = xllamacpp.Server(params)
        self._address = self._server.listening_address
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def _post(self, path, body):
        data = json.dumps(body).encode()
        request = urllib.request.Request(self._address + path, data, {"content-type": "application/json"})
        with self._opener.open(request, timeout=120) as answer:
            return json.load(answer)

    def tokenize(self, text):
        body = {"content": text, "parse_special": True, "add_special": False}
        return self._post("/tokenize", body)["tokens"]

    def greedy(self, ids, count, alternatives=20):
        """Return the likeliest continuation, and {id: logprob} of the likeliest tokens at each position."""
        body = {"prompt": ids, "n_predict": count, "temperature": 0, "n_probs": alternatives}
        answer = self._post("/completion", body | {"return_tokens": True, "cache_prompt": False})
        rows = [
            {one["id"]: one["logprob"] for one in entry["top_logprobs"]}
            for entry in answer["completion_probabilities"]
        ]
        return answer["tokens"], rows
