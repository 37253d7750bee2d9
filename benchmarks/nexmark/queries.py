"""The queries of Nexmark, each one program for both engines.

The fields and meanings are those of the published SQL. A query that the SQL gives as rows which never change is a
stream into Parquet; one whose rows are updated is the state "result".
"""

from decimal import Decimal
from typing import Any

from benchmarks.nexmark.events import LATE, LONGEST
from benchmarks.nexmark.tables import Nexmark
from trident import (
    Average,
    Count,
    CountDistinct,
    Max,
    Min,
    SessionWindow,
    SlidingEventTimeWindow,
    Stream,
    Sum,
    TopK,
    TridentTuple,
    TumblingDurationWindow,
    TumblingEventTimeWindow,
    col,
    lit,
    when,
)
from trident import functions as F
from trident.state import MemoryMapState

MEMORY = MemoryMapState.opaque()
EURO = lit(Decimal("0.908"))
DAY, MINUTE = F.date_format("dateTime", "yyyy-MM-dd"), F.date_format("dateTime", "HH:mm")
BANDS = {
    "low": col("price") < 10_000,
    "middle": (col("price") >= 10_000) & (col("price") < 1_000_000),
    "high": col("price") >= 1_000_000,
}
WINNER = (
    "price, bidTime, bidder, bidExtra, "
    "itemName, description, initialBid, reserve, dateTime, expires, seller, category, extra"
)
"""The fields of a bid, in the order in which it wins, and of its auction."""
EVER = ("-3650 days", "3650 days")
"""The interval of a join that has none."""


def q0(nexmark: Nexmark) -> None:
    """Pass the bids through."""
    nexmark.bids.project("auction, bidder, price, dateTime, extra").writeParquet(nexmark.out)


def q1(nexmark: Nexmark) -> None:
    """Convert the prices into euros."""
    bids = nexmark.bids.project("auction, bidder, price, dateTime, extra")
    bids.each({"price": EURO * col("price")}, replace=True).writeParquet(nexmark.out)


def q2(nexmark: Nexmark) -> None:
    """Select the bids on some auctions."""
    nexmark.bids.filter(col("auction") % 123 == 0).project("auction, price").writeParquet(nexmark.out)


def q3(nexmark: Nexmark) -> None:
    """Find who sells in three states in category 10."""
    auctions = nexmark.auctions.filter(col("category") == 10).project("id, seller").toTable("id", name="auctions")
    persons = nexmark.persons.filter(col("state").isin("OR", "ID", "CA")).project("id, name, city, state")
    local = auctions.join(persons.toTable("id", name="persons"), "seller")
    local.project("id, name, city, state").toTable("id", name="result")


def q4(nexmark: Nexmark) -> None:
    """Give the average of the winning prices of each category."""
    final = _in_time(nexmark).groupBy("id, category").persistentAggregate(MEMORY, "price", Max(), "final", name="final")
    categories = final.changes().groupBy("category")
    categories.persistentAggregate(MEMORY, "final", Average(), "average", name="result")


def q5(nexmark: Nexmark) -> None:
    """Find the auctions with most bids in the last ten seconds, every two seconds."""
    hop = SlidingEventTimeWindow("10 seconds", "2 seconds", "dateTime", lateness=LATE)
    counts = nexmark.bids.groupBy("auction").window(hop, Count(), "num", name="counts")
    most = counts.groupBy("windowStart, windowEnd").aggregate("num", Max(), "most")
    hot = counts.join(most, "windowStart, windowEnd").filter(col("num") == col("most"))
    hot.project("auction, num, windowStart, windowEnd").writeParquet(nexmark.out)


def q6(nexmark: Nexmark) -> None:
    """Give the average price of the last ten auctions of each seller."""
    sold = _in_time(nexmark).groupBy("seller, id, expires")
    final = sold.persistentAggregate(MEMORY, "price", Max(), "final", name="final")
    last = (
        final.changes()
        .groupBy("seller")
        .persistentAggregate(MEMORY, "expires, id, final", TopK(10), "last", name="last")
    )
    last.changes().each("last", mean_price, "average double").project("seller, average").toTable(
        "seller", name="result"
    )


def mean_price(last: list[TridentTuple]) -> float:
    total: int = sum(auction.final for auction in last)
    return total / len(last)


def q7(nexmark: Nexmark) -> None:
    """Find the highest bids of each ten seconds."""
    tens = TumblingEventTimeWindow("10 seconds", "dateTime", lateness=LATE)
    highest = nexmark.bids.window(tens, "price", Max(), "price", name="highest").project("windowEnd, price")
    bids = nexmark.bids.intervalJoin(
        highest,
        "price",
        ("0 seconds", "10 seconds"),
        timestampField="dateTime",
        otherTimestampField="windowEnd",
        lateness=LATE,
        name="waiting",
    )
    bids.project("auction, price, bidder, dateTime, extra").writeParquet(nexmark.out)


def q8(nexmark: Nexmark) -> None:
    """Find who registered and opened an auction within the same ten seconds."""
    tens = TumblingEventTimeWindow("10 seconds", "dateTime", lateness=LATE)
    persons, sellers = nexmark.persons.project("id, name, dateTime"), nexmark.auctions.project("seller, dateTime")
    new = persons.windowJoin(sellers, "id", tens, otherKeys="seller", outputFields="id, name, registered, opened")
    new.project("id, windowStart, name, windowEnd").toTable("id, windowStart", name="result")


def q9(nexmark: Nexmark) -> None:
    """Find the winning bid of each auction: the highest, and of equal ones the first."""
    best = TopK(1, ascending=[False, *[True] * WINNER.count(",")])
    _in_time(nexmark).groupBy("id").persistentAggregate(MEMORY, WINNER, best, "best", name="result")


def q10(nexmark: Nexmark) -> None:
    """Log the bids into folders by day and minute."""
    bids = nexmark.bids.project("auction, bidder, price, dateTime, extra")
    bids.each({"day": DAY, "minute": MINUTE}).writeParquet(nexmark.out, partitionBy="day, minute")


def q11(nexmark: Nexmark) -> None:
    """Count the bids of each bidder's sessions."""
    sessions = SessionWindow("10 seconds", "dateTime", lateness=LATE)
    nexmark.bids.groupBy("bidder").window(sessions, Count(), "bids", name="sessions").writeParquet(nexmark.out)


def q12(nexmark: Nexmark) -> None:
    """Count each bidder's bids in ten seconds of the clock."""
    tens = TumblingDurationWindow("10 seconds")
    counts = nexmark.bids.groupBy("bidder").window(tens, Count(), "bids", name="tens", emit="changes")
    counts.toTable("windowStart, bidder", name="result")


def q13(nexmark: Nexmark) -> None:
    """Join a table that does not change."""
    side = {key: f"value {key}" for key in range(10_000)}
    table = nexmark.topology.newStaticState(side, keyFields="key long", valueType="string", name="side")
    bids = nexmark.bids.project("auction, bidder, price, dateTime").each({"key": col("auction") % 10_000})
    bids.joinTable(table, "key", outputFields="value").drop("key").writeParquet(nexmark.out)


def q14(nexmark: Nexmark) -> None:
    """Convert, filter, and compute with times and texts."""
    hour = F.hour("dateTime")
    bids = nexmark.bids.each({"price": EURO * col("price")}, replace=True)
    bids = bids.filter((col("price") > 1_000_000) & (col("price") < 50_000_000)).each(
        {
            "time": when((hour >= 8) & (hour <= 18), "day")
            .when((hour <= 6) | (hour >= 20), "night")
            .otherwise("other"),
            "c": F.length("extra") - F.length(F.replace("extra", "c", "")),
        }
    )
    bids.project("auction, bidder, price, time, dateTime, extra, c").writeParquet(nexmark.out)


def q15(nexmark: Nexmark) -> None:
    """Count the bids, bidders and auctions of each day, also by price."""
    statistics = {**_counts(), **_distinct("bidder"), **_distinct("auction")}
    nexmark.bids.each({"day": DAY}).groupBy("day").persistentAggregate(MEMORY, statistics, name="result")


def q16(nexmark: Nexmark) -> None:
    """Count the bids, bidders and auctions of each channel and day, also by price."""
    statistics = {"last": Max("minute"), **_counts(), **_distinct("bidder"), **_distinct("auction")}
    bids = nexmark.bids.each({"day": DAY, "minute": MINUTE}).groupBy("channel, day")
    bids.persistentAggregate(MEMORY, statistics, name="result")


def q17(nexmark: Nexmark) -> None:
    """Give the statistics of each auction and day."""
    prices = {"least": Min("price"), "most": Max("price"), "mean": Average("price"), "total": Sum("price")}
    bids = nexmark.bids.each({"day": DAY}).groupBy("auction, day")
    bids.persistentAggregate(MEMORY, {**_counts(), **prices}, name="result")


def q18(nexmark: Nexmark) -> None:
    """Find the last bid of each bidder on each auction."""
    nexmark.bids.toTable("auction, bidder", MEMORY, orderBy="dateTime", name="result")


def q19(nexmark: Nexmark) -> None:
    """Find the ten highest bids of each auction."""
    bid = "price, dateTime, bidder, channel, url, extra"
    nexmark.bids.groupBy("auction").persistentAggregate(MEMORY, bid, TopK(10), "top", name="result")


def q20(nexmark: Nexmark) -> None:
    """Add the auction to each bid in category 10."""
    auctions = (
        nexmark.auctions.filter(col("category") == 10).rename("dateTime", "begins").rename("extra", "auctionExtra")
    )
    bids = nexmark.bids.intervalJoin(
        auctions,
        "auction",
        EVER,
        otherKeys="id",
        timestampField="dateTime",
        otherTimestampField="begins",
        lateness=LATE,
        name="waiting",
    )
    bids.writeParquet(nexmark.out)


def q21(nexmark: Nexmark) -> None:
    """Add the number of each bid's channel, from its name or from the address."""
    name, written = F.lower("channel"), F.split_part(F.split_part("url", "&channel_id=", 2), "&", 1)
    number = (
        when(name == "apple", "0").when(name == "google", "1").when(name == "facebook", "2").when(name == "baidu", "3")
    )
    bids = nexmark.bids.each({"number": number.otherwise(F.nullif(written, lit("")))}).filter(col("number").isNotNull())
    bids.project("auction, bidder, price, channel, number").writeParquet(nexmark.out)


def q22(nexmark: Nexmark) -> None:
    """Divide the addresses into folders."""
    folders = {f"dir{number}": F.split_part("url", "/", number + 3) for number in (1, 2, 3)}
    nexmark.bids.each(folders).project("auction, bidder, price, channel, dir1, dir2, dir3").writeParquet(nexmark.out)


def _in_time(nexmark: Nexmark) -> Stream:
    """Return each bid on an open auction, beside the auction."""
    bids = nexmark.bids.rename("dateTime", "bidTime").rename("extra", "bidExtra")
    pairs = nexmark.auctions.intervalJoin(
        bids,
        "id",
        ("0 seconds", LONGEST),
        otherKeys="auction",
        timestampField="dateTime",
        otherTimestampField="bidTime",
        lateness=LATE,
        name="open",
    )
    return pairs.filter(col("bidTime") <= col("expires"))


def _counts() -> dict[str, Any]:
    return {"bids": Count(), **{f"{band}_bids": Count(where=prices) for band, prices in BANDS.items()}}


def _distinct(field: str) -> dict[str, Any]:
    """Count the different values of a field, of all bids and by price."""
    by_price = {f"{band}_{field}s": (field, CountDistinct(exact=True, where=prices)) for band, prices in BANDS.items()}
    return {f"{field}s": (field, CountDistinct(exact=True)), **by_price}
