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
# # Word count, once
#
# This notebook reads a novel batch by batch and counts every word exactly once, whatever fails. Meanwhile it queries
# the counts. It needs no server: the counts are kept in this process.

# %%
import time

from trident import Count, Debug, FilterNull, MapGet, Sum, TridentTopology
from trident.demo import CORPUS
from trident.demo.words import words
from trident.spouts import FileSpout
from trident.state import MemoryMapState

# %% [markdown]
# ## The topology
#
# `words` is a plain Python generator: it takes a line and yields its words. The first stream counts them into a state,
# the second one answers queries from it. Nothing runs yet: building and drawing a topology needs no Spark.

# %%
topology = TridentTopology()
counts = (
    topology.newStream("novel", FileSpout(f"{CORPUS}/*.txt", maxBytesPerBatch=200_000))
    .each("line", words, "word string")
    .each("word", Debug("words", limit=2))
    .groupBy("word")
    .persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
)
asked = topology.newDRPCStream("occurrences").each("args", words, "word string").groupBy("word")
asked.stateQuery(counts, "word", MapGet(), "count").each("count", FilterNull()).aggregate("count", Sum(), "sum")
topology

# %% [markdown]
# ## Running it
#
# The cell below updates itself. It shows the last committed batch, its rate, the number of keys that it touched, and
# the tuples that `Debug` printed. With a `checkpointLocation=` the next start would continue where this one stopped;
# without one, states and positions are lost when the run ends; `start` warns about it.

# %%
running = topology.start(name="wordcount")
progress = running.showProgress()

# %% [markdown]
# ## Querying while it runs
#
# An answer comes from the state as of one committed batch, in about a millisecond and without a Spark job. The cell
# repeats the query until the first batch is committed, which takes a while after Spark has just been started.

# %%
while not (early := running.drpc.execute("occurrences", "whale ship sea")).asOfTxid:
    time.sleep(0.05)
early

# %% [markdown]
# `processAllAvailable` returns when everything that the source has now is counted.

# %%
running.processAllAvailable()
whales = running.drpc.execute("occurrences", "whale ship sea")
whales

# %% [markdown]
# You can read the state itself like a mapping, or as a whole. Every read is as of one committed batch.

# %%
state = running.state("counts")
assert early.asOfTxid <= whales.asOfTxid == state.asOfTxid
state["whale"], state.get("telephone", 0), state.multiGet(["ahab", "ishmael"])

# %%
state.toPandas().sort_values("count", ascending=False).head(10)

# %%
state

# %% [markdown]
# Each batch leaves an event: `lastProgress` is the last one, and `recentProgress` has the last hundred.

# %%
running.lastProgress

# %%
running.stop()
progress.stop()
running
