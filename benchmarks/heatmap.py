"""How large a heatmap is in a saved notebook.

    python benchmarks/heatmap.py [--tokens 100]

Prints the bytes of plotly's JSON, as it goes over the wire and as a notebook stores it (indented, UTF-8), of
the static HTML and of the text beside it, and where the bytes of the JSON are; and the time to make it all.
JupyterLab may add a PNG of its own to what it displays directly; that is not ours and not counted.
"""

import argparse
import json
import statistics
import time

from tables import body

from oai_nb.decode import decode
from oai_nb.fold import fold
from oai_nb.plots import MIME, heatmap

BUDGET = 15_000


def size(value, **options):
    return len(json.dumps(value, ensure_ascii=False, **options).encode())


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--tokens", type=int, default=100)
    asked = options.parse_args()
    completion = fold([decode(body(asked.tokens).encode())])
    times = []
    for _ in range(11):
        start = time.perf_counter()
        bundle = heatmap(completion)._repr_mimebundle_()
        times.append(1e3 * (time.perf_counter() - start))
    plot = bundle[MIME]
    print(f"{asked.tokens} tokens, bytes")
    print(f"plotly JSON, compact         {size(plot, separators=(',', ':')):8,}")
    print(f"plotly JSON                  {size(plot):8,}   budget {BUDGET:,}")
    stored = {name: size(part, indent=1, sort_keys=True) for name, part in bundle.items()}
    for name, count in stored.items():
        print(f"  in the .ipynb {name[-14:]:14}{count:8,}")
    print(f"  in the .ipynb in all       {sum(stored.values()):8,}   budget 50,000 for 100 tokens")
    trace, layout = plot["data"][0], plot["layout"]
    parts = {"z": trace["z"], "text": trace["text"], "positions": layout["xaxis"], "frames": layout["shapes"]}
    print("of these: " + ", ".join(f"{name} {size(part):,}" for name, part in parts.items()))
    print(f"made in {statistics.median(times):.1f} ms (median), first {times[0]:.0f} ms")


if __name__ == "__main__":
    main()
