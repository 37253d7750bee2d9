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
# # Counters that survive a crash
#
# Two programs count the words of a novel into counters that other programs can read. The first one is written by hand
# with Structured Streaming's `foreachBatch`, the second one with this library. Both die once, at the same moment: after
# a batch was added to the counters, and before the engine noted that it is done. Then both are started again.

# %%
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from trident import openState
from trident.demo import CORPUS
from trident.demo.words import count_independently

folder = Path(tempfile.mkdtemp(prefix="counters-"))
truth = count_independently(CORPUS)
truth["whale"], sum(truth.values())

# %% [markdown]
# ## By hand, with foreachBatch
#
# `add` adds a batch's counts to a table. Structured Streaming gives `foreachBatch` every batch *at least* once: what
# happens to a batch that comes twice is left to the function. This one adds it twice.

# %%
db = sqlite3.connect(folder / "counters.sqlite", check_same_thread=False)
db.execute("CREATE TABLE counts (word TEXT PRIMARY KEY, n INTEGER)")
crashes = [1]


def add(batch, batchId):
    rows = batch.groupBy("word").count().collect()
    with db:
        db.executemany("INSERT INTO counts VALUES (?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n", rows)
    if batchId in crashes:  # the driver dies here, once
        crashes.remove(batchId)
        raise SystemError("the driver died")


def count_by_hand():
    spark = SparkSession.builder.master("local[2]").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    words = F.regexp_extract_all(F.lower("value"), F.lit("([a-z]+(?:'[a-z]+)*)"))
    lines = spark.readStream.option("maxFilesPerTrigger", 50).text(str(CORPUS), pathGlobFilter="*.txt")
    stream = lines.select(F.explode(words).alias("word")).writeStream.foreachBatch(add)
    query = stream.option("checkpointLocation", f"{folder}/by-hand").trigger(availableNow=True).start()
    query.awaitTermination()


# %%
try:
    count_by_hand()
except Exception as error:
    print(type(error).__name__)
count_by_hand()  # the restart
by_hand = Counter(dict(db.execute("SELECT word, n FROM counts")))
by_hand["whale"], sum(by_hand.values())

# %% [markdown]
# The batch that was under way is counted twice. Nothing warned of it.

# %% [markdown]
# ## The same with this library
#
# The program is a file, so that its driver can be a process that is really killed: the environment variable makes the
# process kill itself (SIGKILL) when the state holds its second batch and the log does not say so yet.

# %%
program = folder / "counting.py"
program.write_text(f"""
from trident import Count, TridentTopology
from trident.demo import CORPUS
from trident.demo.words import words
from trident.spouts import FileSpout
from trident.state import MemoryMapState

topology = TridentTopology()
lines = topology.newStream("novel", FileSpout(str(CORPUS / "*.txt"), maxFilesPerBatch=50))
pairs = lines.each("line", words, "word string").groupBy("word")
pairs.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")

if __name__ == "__main__":
    running = topology.start(name="counting", checkpointLocation="{folder}/trident", availableNow=True)
    running.awaitTermination()
""")
crash = {**os.environ, "TRIDENT_CRASH_AT": "commit.states.after:2"}
killed = subprocess.run([sys.executable, program], env=crash, stderr=subprocess.DEVNULL)
killed.returncode  # -9: killed

# %% [markdown]
# The restart finds in the log that the second batch is frozen, and in the state that it is there already.

# %%
subprocess.run([sys.executable, program], check=True, stderr=subprocess.DEVNULL)
with openState("counting", "counts", checkpointLocation=f"{folder}/trident") as state:
    counts = Counter(dict(state.items()))
counts["whale"], sum(counts.values())

# %%
assert counts == truth
{"words": sum(truth.values()), "by hand": sum(by_hand.values()), "with trident": sum(counts.values())}
