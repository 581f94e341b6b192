"""Run every benchmark, one after the other: `uv run python -m benchmarks`."""

import subprocess
import sys
from pathlib import Path

failed = []
for path in sorted(Path(__file__).parent.glob("[a-z]*.py")):
    print(f"\n## {path.stem}\n", flush=True)
    if subprocess.run([sys.executable, path], check=False).returncode:
        failed.append(path.stem)
sys.exit(f"failed: {', '.join(failed)}" if failed else 0)
