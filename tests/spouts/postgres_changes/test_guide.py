"""The program of the guide's page on PostgreSQL's changes runs as printed, with the statements that the page names."""

import re
from pathlib import Path

import pytest

from tests.spouts.postgres_changes.changed_table import ChangedTable
from tests.support.postgres import PostgresServer

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "postgres-changes.md"


def test_it_prints_what_the_page_says(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    statements = re.findall(r"`((?:CREATE PUBLICATION|ALTER TABLE) [^`.]*)`", PAGE.read_text(encoding="utf-8"))
    postgres.run(
        "create table orders (id bigserial primary key, customer text, price bigint)",
        *statements,
        "insert into orders (customer, price) values ('Ann', 3), ('Bob', 2), ('Ann', 4)",
    )
    monkeypatch.setenv("SHOP_URL", postgres.url)
    monkeypatch.chdir(tmp_path)
    try:
        exec(compile(program, str(PAGE), "exec"), {})
    finally:
        ChangedTable(postgres, "shop").drop_slot()
    (said,) = re.findall(r"print\(.*\)  # (.*)", program)
    assert eval(capsys.readouterr().out) == eval(said)
