"""Write the golden files that do not exist yet: `python tests/golden/write.py`.

An existing file is never touched. It stands for data people already have: a change that can no longer read it has
to be mended in the schemas (a new version of the type), not here.
"""

import sys
from pathlib import Path
from typing import get_args

from expected import EXPECTED

from speciate_schemas import encode
from speciate_schemas.codec import Format


def main() -> None:
    """Write what is missing and say so."""
    for tag, value in EXPECTED.items():
        for form in get_args(Format):
            path = Path(__file__).parent / f"{tag}.{form}"
            if not path.exists():
                path.write_bytes(encode(value, form))
                sys.stdout.write(f"wrote {path.name}\n")


if __name__ == "__main__":
    main()
