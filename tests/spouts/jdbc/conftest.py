"""A server for all tests of this folder, and a table's name for each."""

import pytest

pytest.importorskip("psycopg", reason="tests of JdbcSpout need the package psycopg")

from tests.support.postgres_fixtures import mortal as mortal  # noqa: E402
from tests.support.postgres_fixtures import postgres as postgres  # noqa: E402
from tests.support.postgres_fixtures import table as table  # noqa: E402
