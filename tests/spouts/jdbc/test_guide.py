"""The program of the guide's page on tables runs as printed."""

import re
from pathlib import Path

import pytest

from tests.support.postgres import PostgresServer

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "jdbc.md"


def test_it_prints_what_the_page_says(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    postgres.run(
        "create table orders (id bigserial primary key, item text, price bigint)",
        "insert into orders (item, price) values ('tea', 3), ('milk', 2), ('tea', 4)",
    )
    monkeypatch.setenv("SHOP_URL", postgres.url)
    monkeypatch.chdir(tmp_path)
    exec(compile(program, str(PAGE), "exec"), {})
    (said,) = re.findall(r"print\(.*\)  # (.*)", program)
    assert eval(capsys.readouterr().out) == eval(said)
