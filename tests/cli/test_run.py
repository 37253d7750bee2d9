"""``trident run``: what it refuses before it starts anything. ``tests/faults/test_standby.py`` runs it, and ends it."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from trident.cli.main import main


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["no_such_module:topology"], 1, "there is no module 'no_such_module'"),
        (["tests.faults.standby_program"], 2, "expected module:topology"),
        (["tests.faults.standby_program:topology", "--token", "secret"], 2, "write env:NAME or file:path"),
        (["tests.faults.standby_program:topology", "--engine", "storm"], 2, "'storm' is not one of"),
    ],
)
def test_wrong_calls_are_refused(tmp_path: Path, options: list[str], code: int, message: str) -> None:
    result = CliRunner().invoke(main, ["run", *options, "--checkpoint", str(tmp_path)])
    assert (result.exit_code, message in result.output) == (code, True), result.output
    assert list(tmp_path.iterdir()) == []
