"""The guide's program over objects counts as it says."""

import gzip
import json
from pathlib import Path

from tests.spouts.objects.conftest import Objects
from tests.support.pages import blocks_of
from trident.testing.local import start_local

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "spouts.md"
STORAGE = '{"region": "eu-central-1"}'


def test_the_guides_program_counts(objects: Objects) -> None:
    for month, page in (("2024-01", "/"), ("2024-02", "/cart"), ("2024-02", "/"), ("2023-12", "/old")):
        line = json.dumps({"user": 1, "page": page})
        objects.put(f"clicks/{month}/page{page.strip('/')}.json.gz", gzip.compress(f"{line}\n".encode()))
    (program,) = [block for block in blocks_of(PAGE) if "s3://shop" in block and "TridentTopology()" in block]
    assert STORAGE in program
    page: dict[str, object] = {}
    exec(program.replace("s3://shop", objects.url).replace(STORAGE, repr(objects.server.storage)), page)
    with start_local(page["topology"]) as running:
        running.processAllAvailable(timeout=60)
        assert dict(running.state("pages").items()) == {"/": 2, "/cart": 1}
