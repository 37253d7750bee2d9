"""Queries over states give the rows that DuckDB alone gives over the same tables."""

import math
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from trident.run.running import RunningTopology

QUERIES = (
    "select * from counts order by person",
    "select count(*) from orders",
    "select person, n from counts where n > 10 order by n desc, person",
    "select n * 2 + 1 as m, upper(person) from counts order by all",
    "from counts select person order by 1",
    "table total",
    "select most from total",
    "select * from spent order by person",
    "select person, money, mean from spent order by money desc nulls last",
    "select sum(n) from visits",
    "select person, sum(n) as s from visits group by person order by person",
    "select person, day, n from visits where day is null order by person",
    "select day, count(distinct person) from visits group by day order by day nulls first",
    'select * from "latest.seen" order by city',
    "select city, date_trunc('day', seen) as d from \"latest.seen\" order by city",
    "select counts.n, spent.sold from counts join spent using (person) order by person",
    "select c.person, v.day, v.n from counts c join visits v on c.person = v.person order by all",
    "select c.person, o.id from counts c left join orders o on o.id = c.n order by all",
    "select c.person, s.sold from counts c full join spent s on c.n = s.sold and c.person > s.person order by all",
    "select person from counts where person not in (select person from visits where day = '2026-01-01') order by 1",
    "select person from counts c where exists (select 1 from visits v where v.person = c.person and v.n > 1)"
    " order by 1",
    "select person from counts semi join spent using (person) order by person",
    "select person from counts anti join (select person from spent where sold > 40) using (person) order by person",
    "select a.person, b.person from counts a cross join counts b where a.person < b.person order by all",
    "select id, latest.amount from orders where latest.amount > 200 order by id",
    "select sum(latest.amount), avg(latest.amount), min(latest.amount), max(latest.amount) from orders",
    "select latest.amount * 3, latest.amount / 7 from orders where id < 20 order by id",
    "select cast(latest.amount as double) + 0.5 from orders where latest.amount is not null order by id",
    "select count(latest.amount), count(*), count(*) filter (where latest.city is null) from orders",
    "select latest.city, count(*) from orders group by latest.city order by 1 nulls last",
    "select latest.city, latest.person, count(*) from orders group by rollup (latest.city, latest.person) order by all",
    "select latest.city, sum(id) from orders group by all having sum(id) > 100 order by all",
    "select coalesce(latest.city, '?') as city, string_agg(id::varchar, ',' order by id) from orders group by 1"
    " order by 1",
    "select id, latest.score from orders where isnan(latest.score) order by id",
    "select avg(latest.score) from orders where not isnan(latest.score)",
    "select quantile_cont(id, 0.25), median(id) from orders",
    "select id, latest.tags from orders order by id limit 30",
    "select id, unnest(latest.tags) as tag from orders order by all limit 50",
    "select tag, count(*) from (select unnest(latest.tags) as tag from orders) group by tag order by tag nulls first",
    "select id, len(latest.tags), latest.tags[1] from orders order by id",
    "select id, list_contains(latest.tags, 't1') from orders order by id",
    "select id, latest.prices['a'] from orders order by id",
    "select id, map_keys(latest.prices), cardinality(latest.prices) from orders order by id",
    "select id, latest.place.street, latest.place.no from orders order by id",
    "select latest.place, count(*) from orders group by 1 order by all",
    "select id, {'a': id, 'b': [latest.city]} as s from orders order by id limit 10",
    "select id, hex(latest.seal), octet_length(latest.seal) from orders order by id",
    "select latest.paid, count(*) from orders group by 1 order by 1 nulls first",
    "select id from orders where latest.paid and not latest.place.no = 4 order by id",
    "select latest.day, count(*) from orders group by 1 order by 1 nulls first",
    "select year(latest.day), month(latest.day), count(*) from orders group by all order by all",
    "select id, latest.day + 1, latest.day - date '2026-01-01' from orders order by id",
    "select id, latest.at, latest.local from orders order by id",
    "select date_trunc('week', latest.at) as w, count(*) from orders group by w order by w",
    "select id from orders where latest.at between timestamptz '2026-01-05 00:00:00+00' and '2026-01-09' order by id",
    "select max(latest.at) - min(latest.at) > interval 1 day from orders",
    "select strftime(latest.local, '%Y-%m-%d %H'), extract(hour from latest.at) from orders order by id",
    "select id, row_number() over (partition by latest.person order by id desc) as r from orders order by id",
    "select id, sum(id) over (order by id rows between 2 preceding and current row) from orders order by id",
    "select person, n, rank() over (order by n desc), lag(person) over (order by person) from counts order by person",
    "select person, day, n from visits qualify row_number() over (partition by person order by day desc nulls last) = 1"
    " order by person",
    "with big as (select * from counts where n > 20), joined as (from big join spent using (person))"
    " select * from joined order by person",
    "with counts as (select person, n from counts where n > 1) select * from counts order by person",
    "with recursive f(a, b) as (select 1, 1 union all select b, a + b from f where b < 100) select a from f order by a",
    "select person from counts union select latest.person from orders order by 1",
    "select person from counts except select 'bob' order by 1",
    "select n from counts intersect all select sold from spent order by 1",
    "values (1, 'a'), (2, null)",
    "pivot (select latest.city as city, latest.paid as paid, id from orders) on paid in (true, false) using count(id)"
    " group by city order by city",
    "unpivot (select person, sold, sold + 1 as more from spent) on sold, more order by all",
    "select * exclude (mean) from spent order by person",
    "select columns('s.*') from spent order by all",
    "select case when n > 41 then 'many' when n > 10 then 'some' end as c, count(*) from counts group by c order by c",
    "select person, (select max(n) from visits v where v.person = c.person) from counts c order by person",
    "select range as i, n from range(3) left join counts on range = n order by all",
    "select list_transform(list(n order by person), lambda x: x + 1) from counts",
    "select to_json(latest.place), json_extract_string(to_json(latest.prices), '$.a') from orders order by id limit 20",
    "select regexp_replace(person, '[aeio]', '_', 'g'), length(person), person like '%o%' from counts order by person",
    "select person from counts where person = 'émile' or person ilike 'ANN' order by person",
    "select count(*) from orders asof join (select latest.at as moment, id as number from orders where id % 10 = 0)"
    " t on orders.latest.at >= t.moment",
    "select * from counts where false",
    "describe counts",
    "describe select latest.place, 1 as x from orders",
    "select 9223372036854775807::hugeint * 2, sum(id) from orders",
)


@pytest.fixture(scope="module")
def alone(shop: RunningTopology) -> duckdb.DuckDBPyConnection:
    """DuckDB as anybody runs it, over the states' tables."""
    connection = duckdb.connect()
    connection.execute("set TimeZone='UTC'")
    for state in shop.states:
        connection.register(state, shop.state(state).toArrow())
    return connection


@pytest.mark.parametrize("query", QUERIES)
def test_equal(shop: RunningTopology, alone: duckdb.DuckDBPyConnection, query: str) -> None:
    expected = alone.sql(query).to_arrow_table()
    result = shop.sql(query).toArrow()
    assert result.column_names == expected.column_names
    assert rows_of(result) == rows_of(expected)
    assert [as_shown(kind) for kind in expected.schema.types] == [as_shown(kind) for kind in result.schema.types]


def test_there_are_sixty_queries_and_more(shop: RunningTopology) -> None:
    assert len(set(QUERIES)) >= 60
    empty = [query for query in QUERIES if not len(shop.sql(query))]
    assert empty == ["select * from counts where false"], "a query without rows shows little"


def test_a_sum_that_no_bigint_holds_is_a_decimal(shop: RunningTopology) -> None:
    table = shop.sql("select 9223372036854775807::hugeint * 2 as big, sum(n) as small from counts").toArrow()
    assert table.schema.types == [pa.decimal128(38, 0), pa.int64()]


def rows_of(table: pa.Table) -> list[str]:
    """Return the rows as texts, so that NaN equals NaN, and a whole number the same number as a decimal."""
    return [repr([plain(value) for value in row.values()]) for row in table.to_pylist()]


def plain(value: Any) -> Any:
    if hasattr(value, "as_integer_ratio") and not isinstance(value, float):
        return f"{value}"
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def as_shown(kind: pa.DataType) -> str:
    """Return a type; sums of whole numbers are narrower here, and no number is unsigned."""
    return "bigint" if kind in (pa.decimal128(38, 0), pa.int64(), pa.uint64()) else str(kind)
