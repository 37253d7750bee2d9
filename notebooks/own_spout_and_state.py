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
# # Your own spout and state
#
# A source and a store that the library does not know are a small class each. Here the source is a table of a SQLite
# file to which another program adds orders, and the store is another SQLite file. Nothing of the exactness is yours to
# write: the notebook kills the program in the middle of a commit and counts again.

# %%
import os
import runpy
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp(prefix="shop-"))
shop = sqlite3.connect(folder / "shop.db")
shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, city TEXT, price INTEGER)")
with shop:
    cities = ["Ulm", "Bonn", "Rome"]
    shop.executemany("INSERT INTO orders (city, price) VALUES (?, ?)", [(cities[n % 3], n) for n in range(1000)])
truth = dict(shop.execute("SELECT city, sum(price) FROM orders GROUP BY city"))
truth

# %% [markdown]
# ## The spout
#
# `PollingSpout` takes a function: from which position on, and how many rows at most. It returns the rows and the
# position after them, which the library keeps in its log, with the batch. Rows must come in the order of their
# positions, and none later at a former position.
#
# ## The state
#
# Two methods make a map from bytes to bytes a state: `multiGet` and `multiPut`. `multiPutIf` keeps a former driver that
# still lives from writing; with `keys` and `multiRemove` the state can be listed and dropped.
#
# The program is a file, so that its process can be killed.

# %%
program = folder / "shop.py"
program.write_text(f'''
import functools
import sqlite3

from trident import Sum, TridentTopology
from trident.spouts import PollingSpout
from trident.state import BackingMapState


def orders(position, limit):
    """Return the orders after an id, and the last id."""
    shop = sqlite3.connect("{folder}/shop.db")
    rows = shop.execute("SELECT id, city, price FROM orders WHERE id > ? ORDER BY id LIMIT ?", (position or 0, limit))
    rows = rows.fetchall()
    return rows, rows[-1][0] if rows else position


class SqliteMap:
    """A map from bytes to bytes in a table of a SQLite file."""

    def __init__(self, file, identity):
        self.db = sqlite3.connect(file, check_same_thread=False)
        self.db.execute("CREATE TABLE IF NOT EXISTS map (key BLOB PRIMARY KEY, value BLOB)")

    def multiGet(self, keys):
        rows = [self.db.execute("SELECT value FROM map WHERE key = ?", (key,)).fetchone() for key in keys]
        return [row and row[0] for row in rows]

    def multiPut(self, keys, values):
        with self.db:
            self.db.executemany("REPLACE INTO map VALUES (?, ?)", zip(keys, values))

    def multiPutIf(self, keys, values, guard, expected):
        with self.db:
            self.db.execute("BEGIN IMMEDIATE")
            if self.multiGet([guard]) != [expected]:
                return False
            self.multiPut(keys, values)
            return True

    def keys(self):
        return [key for (key,) in self.db.execute("SELECT key FROM map")]

    def multiRemove(self, keys):
        with self.db:
            self.db.executemany("DELETE FROM map WHERE key = ?", [(key,) for key in keys])


topology = TridentTopology()
spout = PollingSpout("id long, city string, price long", {{"orders": orders}}, maxRows=100)
store = BackingMapState.opaque(functools.partial(SqliteMap, "{folder}/totals.db"))
sales = topology.newStream("orders", spout).groupBy("city")
sales.persistentAggregate(store, "price", Sum(), "total", name="totals")

if __name__ == "__main__":
    options = {{"engine": "embedded", "checkpointLocation": "{folder}/checkpoint", "availableNow": True}}
    topology.start(name="shop", **options).awaitTermination()
''')

# %% [markdown]
# ## A kill and a restart
#
# The environment variable makes the process kill itself (SIGKILL) when the store holds the fifth batch and the log does
# not say so yet. The second run goes on from there.

# %%
crash = {**os.environ, "TRIDENT_CRASH_AT": "commit.states.after:5"}
killed = subprocess.run([sys.executable, program], env=crash, stderr=subprocess.DEVNULL)
subprocess.run([sys.executable, program], check=True)
killed.returncode  # -9: killed

# %% [markdown]
# The notebook starts the same program once more, and shows its state.

# %%
topology = runpy.run_path(str(program))["topology"]
running = topology.start(name="shop", engine="embedded", checkpointLocation=f"{folder}/checkpoint")
table = running.showState("totals")

# %% [markdown]
# New orders are counted as they come; the table above follows.

# %%
with shop:
    shop.execute("INSERT INTO orders (city, price) VALUES ('Oslo', 1000000)")
running.processAllAvailable()
totals = dict(running.state("totals"))
assert totals == truth | {"Oslo": 1000000}
totals

# %%
running.stop()
table.stop()  # shows the last batch, at once
