"""The program at the head of the guide's page on Kafka runs as it stands."""

from pathlib import Path

from tests.support.kafka import KafkaBroker
from tests.support.pages import blocks_of
from tests.support.server import RedisServer
from trident.testing.local import start_local

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "kafka.md"


def test_the_guides_program_counts(mortal: KafkaBroker, shared_redis: RedisServer, tmp_path: Path) -> None:
    mortal.send(mortal.create("orders"), ["tea", "milk", "tea"])
    program = blocks_of(PAGE)[0].replace("localhost:9092", mortal.servers)
    page: dict[str, object] = {}
    exec(program.replace("redis://localhost", shared_redis.url), page)
    with start_local(page["topology"], name="guide", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
        assert dict(running.state("counts").items()) == {"tea": 2, "milk": 1}
