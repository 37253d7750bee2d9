"""``trident serve``: an address is printed once the topology is opened."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from trident.cli.main import main

PROGRAM = """
from trident import Count, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
topology = TridentTopology()
words = topology.newStream("words", FixedBatchSpout("word string", [["dog"]]))
words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
"""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_wrong_name_is_refused_before_an_address_is_printed(
    workers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"served_{workers}_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(tmp_path)
    with __import__(module).topology.start(
        engine="embedded", name="api", checkpointLocation=tmp_path / "ck"
    ) as running:
        running.processAllAvailable(timeout=20)
    words = ["serve", f"{module}:topology", "--checkpoint", str(tmp_path / "ck"), "--port", "0", "--workers", workers]
    result = CliRunner().invoke(main, [*words, "--name", "apy"])
    assert result.exit_code == 1 and "no topology 'apy' under" in result.output and "'api'" in result.output
    assert "http://" not in result.output
