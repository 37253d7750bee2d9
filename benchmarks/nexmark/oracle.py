"""The result of each query by DuckDB, over the same files."""

from dataclasses import dataclass

import duckdb
import pyarrow as pa

from benchmarks.check import WrongAnswerError
from benchmarks.nexmark.events import LATE, SCHEMAS, Events

IN_TIME = "auctions a JOIN bids b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires"
DAY = "strftime(dateTime, '%Y-%m-%d')"


@dataclass(frozen=True)
class Answer:
    """The right rows, and how the found rows, the table `found`, are written in the same fields."""

    sql: str
    found: str = "SELECT * FROM found"
    theirs: str = ""
    """The rows that are right in the peers, if they give the words of the query another meaning."""


def _sessions(apart: str) -> str:
    """Return the sessions of a gap of ten seconds; `apart` says whether two bids just so far apart are in one."""
    return f"""
        WITH marked AS (
          SELECT bidder, dateTime, coalesce(dateTime - lag(dateTime) OVER own {apart} INTERVAL 10 seconds, true) AS new
          FROM bids WINDOW own AS (PARTITION BY bidder ORDER BY dateTime)),
        numbered AS (
          SELECT bidder, dateTime, sum(new::int) OVER (PARTITION BY bidder ORDER BY dateTime) AS session FROM marked)
        SELECT min(dateTime), max(dateTime) + INTERVAL 10 seconds AS until, bidder, count(*) FROM numbered
        GROUP BY bidder, session HAVING until <= (SELECT bids FROM watermarks)"""


def _by_price(aggregate: str) -> str:
    """Return an aggregate of all bids, and by price."""
    bands = ("price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")
    return ", ".join([aggregate, *(f"{aggregate} FILTER ({band})" for band in bands)])


ANSWERS = {
    "q0": Answer("SELECT auction, bidder, price, dateTime, extra FROM bids"),
    "q1": Answer("SELECT auction, bidder, 0.908 * price, dateTime, extra FROM bids"),
    "q2": Answer("SELECT auction, price FROM bids WHERE auction % 123 = 0"),
    "q3": Answer(
        """SELECT a.id, p.name, p.city, p.state FROM auctions a JOIN persons p ON a.seller = p.id
           WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
        "SELECT id, unnest(latest) FROM found",
    ),
    "q4": Answer(
        f"""SELECT category, avg(final) FROM
            (SELECT a.category, max(b.price) AS final FROM {IN_TIME} GROUP BY a.id, a.category) GROUP BY category"""
    ),
    "q5": Answer(
        """WITH counts AS (
             SELECT auction, start, count(*) AS num FROM
               (SELECT auction, unnest([time_bucket(INTERVAL 2 seconds, dateTime) - to_seconds(2 * n)
                                        for n in range(5)]) AS start FROM bids)
             GROUP BY auction, start)
           SELECT auction, num, start, start + INTERVAL 10 seconds FROM counts
           WHERE start + INTERVAL 10 seconds <= (SELECT bids FROM watermarks)
           QUALIFY num = max(num) OVER (PARTITION BY start)"""
    ),
    "q6": Answer(
        f"""SELECT seller, avg(final) FROM
            (SELECT a.seller, max(b.price) AS final FROM {IN_TIME} GROUP BY a.id, a.seller, a.expires
             QUALIFY row_number() OVER (PARTITION BY a.seller ORDER BY a.expires DESC, a.id DESC) <= 10)
            GROUP BY seller""",
        "SELECT seller, latest.average FROM found",
    ),
    "q7": Answer(
        """WITH highest AS (
             SELECT max(price) AS price, time_bucket(INTERVAL 10 seconds, dateTime) + INTERVAL 10 seconds AS windowEnd
             FROM bids GROUP BY windowEnd HAVING windowEnd <= (SELECT bids FROM watermarks))
           SELECT auction, b.price, bidder, dateTime, extra FROM bids b JOIN highest h
           ON b.price = h.price AND dateTime BETWEEN windowEnd - INTERVAL 10 seconds AND windowEnd"""
    ),
    "q8": Answer(
        """WITH registered AS (
             SELECT DISTINCT id, name, time_bucket(INTERVAL 10 seconds, dateTime) AS start FROM persons),
           opened AS (SELECT DISTINCT seller, time_bucket(INTERVAL 10 seconds, dateTime) AS start FROM auctions)
           SELECT id, p.start, name, p.start + INTERVAL 10 seconds AS until FROM registered p
           JOIN opened a ON id = seller AND p.start = a.start
           WHERE until <= (SELECT least(persons, auctions) FROM watermarks)""",
        "SELECT id, windowStart, unnest(latest) FROM found",
    ),
    "q9": Answer(
        f"""SELECT a.id, b.price, b.dateTime, b.bidder, b.extra, itemName, description, initialBid, reserve, a.dateTime,
                   expires, seller, category, a.extra
            FROM {IN_TIME} QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.dateTime) = 1""",
        """SELECT id, price, bidTime, bidder, bidExtra, itemName, description, initialBid, reserve, dateTime, expires,
                  seller, category, extra FROM (SELECT id, unnest(best, recursive := true) FROM found)""",
    ),
    "q10": Answer(f"SELECT auction, bidder, price, dateTime, extra, {DAY}, strftime(dateTime, '%H:%M') FROM bids"),
    "q11": Answer(_sessions(">="), theirs=_sessions(">")),
    "q12": Answer(
        "SELECT bidder, count(*) FROM bids GROUP BY bidder",
        "SELECT bidder, sum(latest.bids) FROM found GROUP BY bidder",
    ),
    "q13": Answer("SELECT auction, bidder, price, dateTime, 'value ' || auction % 10000 FROM bids"),
    "q14": Answer(
        """SELECT auction, bidder, 0.908 * price,
                  CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'day'
                       WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'night' ELSE 'other' END,
                  dateTime, extra, len(regexp_extract_all(extra, 'c'))
           FROM bids WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000"""
    ),
    "q15": Answer(
        f"""SELECT {DAY} AS day, {_by_price("count(*)")}, {_by_price("count(DISTINCT bidder)")},
                   {_by_price("count(DISTINCT auction)")} FROM bids GROUP BY day"""
    ),
    "q16": Answer(
        f"""SELECT channel, {DAY} AS day, max(strftime(dateTime, '%H:%M')), {_by_price("count(*)")},
                   {_by_price("count(DISTINCT bidder)")}, {_by_price("count(DISTINCT auction)")}
            FROM bids GROUP BY channel, day"""
    ),
    "q17": Answer(
        f"""SELECT auction, {DAY} AS day, {_by_price("count(*)")}, min(price), max(price), avg(price), sum(price)
            FROM bids GROUP BY auction, day"""
    ),
    "q18": Answer(
        """SELECT auction, bidder, price, channel, url, dateTime, extra FROM bids
           QUALIFY row_number() OVER (PARTITION BY auction, bidder ORDER BY dateTime DESC) = 1""",
        "SELECT auction, bidder, unnest(latest) FROM found",
    ),
    "q19": Answer(
        """SELECT auction, price, dateTime, bidder, channel, url, extra FROM bids
           QUALIFY row_number() OVER (PARTITION BY auction ORDER BY price DESC, dateTime DESC) <= 10""",
        "SELECT auction, unnest(top, recursive := true) FROM found",
    ),
    "q20": Answer(
        """SELECT auction, bidder, price, channel, url, b.dateTime, b.extra, itemName, description, initialBid, reserve,
                  a.dateTime, expires, seller, category, a.extra
           FROM bids b JOIN auctions a ON b.auction = a.id WHERE a.category = 10"""
    ),
    "q21": Answer(
        """SELECT * FROM (
             SELECT auction, bidder, price, channel,
                    CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'
                    WHEN 'baidu' THEN '3' ELSE nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '') END AS id
             FROM bids) WHERE id IS NOT NULL"""
    ),
    "q22": Answer(
        """SELECT auction, bidder, price, channel, string_split(url, '/')[4], string_split(url, '/')[5],
                  string_split(url, '/')[6] FROM bids"""
    ),
}


class Oracle:
    """DuckDB over the files of the events.

    A window has a result if the watermark has reached its end; if the stream has `ended`, every window has one.
    """

    def __init__(self, events: Events, ended: bool = False) -> None:
        self._duck = duckdb.connect()
        self._duck.execute("SET TimeZone = 'UTC'")
        for table in SCHEMAS:
            self._duck.execute(f"CREATE VIEW {table} AS SELECT * FROM '{events.files(table)}'")
        lateness = "-1 day" if ended else LATE
        marks = ", ".join(
            f"(SELECT max(dateTime) - INTERVAL '{lateness}' FROM {table}) AS {table}" for table in SCHEMAS
        )
        self._duck.execute(f"CREATE TABLE watermarks AS SELECT {marks}")

    def check(self, query: str, who: str, found: pa.Table, ours: bool = True) -> int:
        """Return the number of right rows. Raises WrongAnswerError if `found` has others, or one not as often."""
        answer = ANSWERS[query]
        self._duck.register("found", found)
        right, got = (answer.sql, answer.found) if ours else (answer.theirs or answer.sql, "FROM found")
        self._duck.execute(f"CREATE OR REPLACE TEMP TABLE expected AS {right}")
        self._duck.execute(f"CREATE OR REPLACE TEMP TABLE got AS {got}")
        missing = self._duck.sql("FROM expected EXCEPT ALL FROM got").fetchall()
        wrong = self._duck.sql("FROM got EXCEPT ALL FROM expected").fetchall()
        if missing or wrong:
            shown = "\n".join(
                f"  {kind}: {row}" for kind, rows in (("lacks", missing), ("has", wrong)) for row in rows[:3]
            )
            raise WrongAnswerError(f"{query}, {who}: {len(missing)} rows are missing, {len(wrong)} are wrong\n{shown}")
        return int(self._duck.sql("SELECT count(*) FROM expected").fetchall()[0][0])
