"""Write the pages that are made from the code: `uv run python docs/make.py [FOLDER]`."""

import sys
from pathlib import Path

import kinds
import parameters

PAGES = {"parameters.md": parameters.page, "kinds.md": kinds.page}


def write(folder: Path) -> None:
    """Write every page into a folder."""
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
