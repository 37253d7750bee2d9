# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Flights in a snowstorm: windows, late data, joins
#
# On 8 March 2013 it snowed in New York: every fourth flight left more than two hours late. The files hold the flights
# in the order in which they *left*, as an airport would report them. Each has the time at which it *should* have left,
# and that is the time that counts here. So a delayed flight is late data, by hours. The flights are real: see their
# [source](data/flights/SOURCE.md).

# %%
from pathlib import Path

import pandas as pd

from trident import Average, Count, TridentTopology, TumblingEventTimeWindow
from trident.spouts import FileSpout
from trident.state import MemoryMapState

departures = FileSpout(
    "data/flights/departures/*.csv",
    format="csv",
    schema="departed timestamp, scheduled timestamp, origin string, carrier string, flight int, dest string",
    maxFilesPerBatch=1,
    orderBy="name",
)
weather = FileSpout(
    "data/flights/weather/*.csv",
    format="csv",
    schema="hour timestamp, origin string, temp double, wind_speed double, precip double, visib double",
    maxFilesPerBatch=1,
    orderBy="name",
)
topology = TridentTopology()
flights = topology.newStream("departures", departures)
flights.show()

# %% [markdown]
# ## Windows by the time of the schedule
#
# How many flights of each hour left? A window closes when the watermark passes its end. The watermark is the latest
# scheduled time so far, less the `lateness`: here a flight may be two hours behind. `late()` is the stream of the
# flights that came even later. No flight is lost: each is in a window or among the late ones.

# %%
hourly = flights.groupBy("origin").window(
    TumblingEventTimeWindow("1 hour", "scheduled", lateness="2 hours"),
    Count(),
    "flights",
    keepFor="2 days",
    name="hourly",
)
late = hourly.late()
late.groupBy("origin").persistentAggregate(MemoryMapState.opaque(), Count(), "flights", name="tooLate")


def minutes(scheduled, departed):
    return (departed - scheduled).total_seconds() / 60


delays = late.each("scheduled, departed", minutes, "delay double").groupBy("carrier")
_ = delays.persistentAggregate(
    MemoryMapState.opaque(), {"flights": Count(), "averageDelay": Average("delay")}, name="delays"
)

# %% [markdown]
# ## A join over time
#
# Each flight meets the weather of its scheduled hour at its airport. The two streams come in files that know nothing of
# each other, so a flight waits in the state `waiting` for its weather, or the weather for its flights. The `lateness`
# says for how long: here a day, so that nothing is late.

# %%
at_weather = flights.intervalJoin(
    topology.newStream("weather", weather),
    "origin",
    ("-59 minutes", "0 minutes"),  # the weather of the full hour at or before the scheduled time
    timestampField="scheduled",
    otherTimestampField="hour",
    lateness="1 day",
    outputFields="origin, departed, scheduled, carrier, flight, dest, hour, temp, wind_speed, precip, visib",
    name="waiting",
)


def visibility(visib):
    return "under a mile" if visib < 1 else "1 to 5 miles" if visib < 5 else "more"


by_visibility = at_weather.each("visib", visibility, "visibility string").each(
    "scheduled, departed", minutes, "delay double"
)
_ = by_visibility.groupBy("visibility").persistentAggregate(
    MemoryMapState.opaque(), {"flights": Count(), "averageDelay": Average("delay")}, name="byVisibility"
)
topology

# %% [markdown]
# ## Running it
#
# Both streams meet in the join, so they share their batches. The cell shows a bar for each source, and a button that
# stops the run.

# %%
running = topology.start(name="flights", engine="embedded")
progress = running.showProgress()
running.processAllAvailable()

# %% [markdown]
# How long did flights wait, in minutes, by the visibility at the hour at which they should have left? Shortest where
# one saw least: it snowed in the morning, and the delays grew over the day.

# %%
byVisibility = running.state("byVisibility")
byVisibility.toPandas().sort_values("averageDelay")

# %% [markdown]
# The airlines whose flights came too late for their windows:

# %%
running.showState("delays", 5, by="flights")

# %% [markdown]
# Each flight counts once: in the window of its hour, or as too late. The windows are a state that is asked like any
# other, also for the hours that are still open.

# %%
windows = running.state("hourly").toPandas()
tooLate = dict(running.state("tooLate"))
windows.groupby("origin").flights.sum().to_dict(), tooLate

# %% [markdown]
# The same by pandas, from all the files at once:

# %%
files = sorted(Path("data/flights/departures").glob("*.csv"))
table = pd.concat([pd.read_csv(file, parse_dates=["departed", "scheduled"]) for file in files])
assert table.groupby("origin").size().to_dict() == {
    origin: windows[windows.origin == origin].flights.sum() + tooLate[origin] for origin in tooLate
}
assert sum(value["flights"] for value in byVisibility.values()) == len(table)
{"flights": len(table), "in windows": int(windows.flights.sum()), "too late": sum(tooLate.values())}

# %%
running.stop()
progress.stop()
