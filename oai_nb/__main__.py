"""The command line: ``python -m oai_nb COMMAND``, also as ``oai-nb COMMAND``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from oai_nb.errors import ConfigurationError, OaiNbError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return 0, or after one line on stderr 1 for what is wrong and 130 for an interrupt."""
    options = _parser().parse_args(arguments)
    try:
        options.run()
    except OaiNbError as error:
        sys.stderr.write(f"oai_nb: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("oai_nb: interrupted\n")
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("oai-nb", description="The notebook laboratory for text completion.")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    about = "fetch the embedded model and prepare it, so that no notebook has to wait for that"
    commands.add_parser("fetch", help=about, description=about).set_defaults(run=fetch)
    return parser


def fetch() -> None:
    """Fetch and prepare the embedded model, and print where it is. Raises OaiNbError."""
    from oai_nb.local import weights

    path = weights.locate()
    try:
        with weights.naming(path):
            weights.prepare(path)
        made = weights.prepared_path(path)
        for what, file in (("the model", path), ("ready to run", made)):
            sys.stdout.write(f"{what}: {file} ({file.stat().st_size / 1e6:.0f} MB)\n")
    except OSError as error:
        reason = f"{weights.cache_folder()} cannot be written: {error.strerror or error}"
        raise ConfigurationError(f"{reason}; set {weights.CACHE} to a folder that can") from error


if __name__ == "__main__":
    sys.exit(main())
