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
# # Questions to a state
#
# A topology answers questions from its states while it runs: Trident calls such a question a DRPC call. This notebook
# asks three of them. It needs neither a server nor Spark: `engine="embedded"` runs the topology in this process.

# %%
from trident import Count, FilterNull, FirstN, MapGet, Sum, TridentTopology, TupleCollectionGet
from trident.demo import CORPUS
from trident.demo.words import count_independently, words
from trident.spouts import FileSpout
from trident.state import MemoryMapState

topology = TridentTopology()

# %% [markdown]
# ## The state
#
# Every word of a novel, counted.

# %%
counts = (
    topology.newStream("novel", FileSpout(f"{CORPUS}/*.txt"))
    .each("line", words, "word string")
    .groupBy("word")
    .persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
)

# %% [markdown]
# ## How often do these words occur?
#
# A request is one tuple, with the field `args`. The stream of requests splits it into words, looks each word up, drops
# those that are not there, and adds up the rest. The tuples of the last step are the answer.

# %%
asked = topology.newDRPCStream("occurrences").each("args", words, "word string").groupBy("word")
found = asked.stateQuery(counts, "word", MapGet(), "count").each("count", FilterNull())
found.aggregate("count", Sum(), "sum")

# %% [markdown]
# ## Which words with this beginning are the most frequent?
#
# `TupleCollectionGet` gives every entry of a state, `FirstN` keeps the first of them in an order.

# %%
entries = topology.newDRPCStream("mostFrequent", "start string").stateQuery(counts, TupleCollectionGet(), "word, count")
matching = entries.filter("start, word", lambda start, word: word.startswith(start))
matching.applyAssembly(FirstN(10, "count", True)).project("word, count")

# %% [markdown]
# ## How many people did a link reach?
#
# Storm's own example. Two maps that no stream of this topology writes say who passed a link on, and who follows whom.
# The reach of a link is the number of *different* people who follow anybody who passed it on.

# %%
passedOn = topology.newStaticState(
    {"/sea": ["ann", "bob"], "/land": ["bob"]}, keyFields="link string", valueType="array<string>", name="passedOn"
)
followers = topology.newStaticState(
    {"ann": ["cid", "dot", "eve"], "bob": ["dot", "fay"]},
    keyFields="person string",
    valueType="array<string>",
    name="followers",
)
links = topology.newDRPCStream("reach", "link string").stateQuery(passedOn, "link", MapGet(), "people")
people = links.each("people", FilterNull()).each("people", iter, "person string")
fans = people.stateQuery(followers, "person", MapGet(), "fans").each("fans", iter, "fan string")
fans.groupBy("fan").aggregate(Count(), "times").aggregate(Count(), "reach")

# %%
topology

# %% [markdown]
# ## Asking
#
# Every answer is as of one committed batch, and says which: `asOfTxid`.

# %%
running = topology.start(name="questions", engine="embedded")
running.processAllAvailable()
whales = running.drpc.execute("occurrences", "whale ship sea")
whales

# %%
running.drpc.execute("mostFrequent", "wh").toPandas()

# %%
{link: running.drpc.execute("reach", link)[0].reach for link in ("/sea", "/land", "/air")}

# %% [markdown]
# The state itself is read like a mapping, by this process or any other.

# %%
truth = count_independently(CORPUS)
assert whales[0].sum == truth["whale"] + truth["ship"] + truth["sea"]
running.state("counts")["whale"], running.state("counts").get("telephone", 0)

# %%
running.stop()
