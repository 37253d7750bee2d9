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
# # Ten cells, ten surprises
#
# Run the cells from top to bottom. Nothing is needed but the library: no server, no Spark, no file of yours.
#
# **1. A program is a picture before it runs.** Each line of a novel becomes words, and a state counts them. Nothing has
# been read yet.

# %%
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from trident import Count, MapGet, TridentTopology, openState
from trident.demo import CORPUS
from trident.demo.words import count_independently, words
from trident.spouts import FileSpout
from trident.state import MemoryMapState

topology = TridentTopology()
lines = topology.newStream("novel", FileSpout(CORPUS / "*.txt", maxBytesPerBatch=100_000))
split = lines.each("line", words, "word string")
counts = split.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
topology

# %% [markdown]
# **2. You can look into the middle of it.** `show` computes the first tuples at this place, and starts nothing.

# %%
split.show(5)

# %% [markdown]
# **3. A mistake is found before anything runs**, at its line, with the way out.

# %%
try:
    split.groupBy("wrod")
except Exception as mistake:
    print(mistake)

# %% [markdown]
# **4. A program can promise.** What each state gets, and by which step, is known in advance.

# %%
topology.explain("embedded")

# %% [markdown]
# **5. A novel is counted in a second, and you can kill it.** Here the run dies by force in the middle of a batch: the
# state has its third batch, and the log does not say so yet.

# %%
folder = Path(tempfile.mkdtemp(prefix="ten-cells-"))
program = """
from trident import Count, TridentTopology
from trident.demo import CORPUS
from trident.demo.words import words
from trident.spouts import FileSpout
from trident.state import MemoryMapState

topology = TridentTopology()
lines = topology.newStream("novel", FileSpout(CORPUS / "*.txt", maxBytesPerBatch=100_000))
split = lines.each("line", words, "word string")
split.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
with topology.start(name="novel", checkpointLocation="novel.ckpt", engine="embedded") as running:
    running.processAllAvailable()
"""
crash = {**os.environ, "TRIDENT_CRASH_AT": "commit.states.after:3"}
subprocess.run([sys.executable, "-c", program], cwd=folder, env=crash).returncode  # -9: killed

# %% [markdown]
# **6. The dead program answers.** Its state is read as of the last batch that it committed: two batches, not three.

# %%
with openState("novel", "counts", folder / "novel.ckpt") as dead:
    print(dead.asOfTxid, sum(dead.values()), dead["the"])

# %% [markdown]
# **7. The next start continues, here, in another process.** No word is lost, and none is counted twice: the number on
# the right is a count without the library.

# %%
running = topology.start(name="novel", checkpointLocation=folder / "novel.ckpt", engine="embedded")
progress = running.showProgress()
running.processAllAvailable()
truth = count_independently(CORPUS)
sum(running.state("counts").values()), sum(truth.values())

# %% [markdown]
# **8. A running state is a dictionary.** Each line is one read, as of one batch.

# %%
state = running.state("counts")
state["whale"], state.get("telephone", 0), state.prefix("whaleb"), state.top(3)

# %% [markdown]
# **9. The past is still there.** The state as of the batch before, and as of the last one.

# %%
before = state.asOf(state.asOfTxid - 1)
(before.asOfTxid, before["whale"]), (state.asOfTxid, state["whale"])

# %% [markdown]
# **10. A program may change between two starts.** The topology gets a question, and keeps its counts. The answer names
# the batch that it shows.

# %%
running.stop()
progress.stop()
topology.newDRPCStream("count", "word string").stateQuery(counts, "word", MapGet(), "count").project("count")
with topology.start(name="novel", checkpointLocation=folder / "novel.ckpt", engine="embedded") as again:
    answer = again.drpc.execute("count", "whale")
answer[0]["count"], answer.asOfTxid
