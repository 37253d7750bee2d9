"""The processor time of each query on each engine and in the peers, drawn."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.nexmark.timed import Times
from benchmarks.report import save_picture


def draw(times: Sequence[Times], path: Path) -> None:
    """Draw a group of bars for each query; a system that cannot say it has no bar there."""
    systems = list(dict.fromkeys(name for each in times for name in each.processor))
    figure = Figure(figsize=(14, 4.5), layout="constrained")
    axes, at, width = figure.subplots(), np.arange(len(times)), 0.8 / len(systems)
    for number, system in enumerate(systems):
        seconds = [each.processor.get(system, np.nan) for each in times]
        axes.bar(at + width * (number - (len(systems) - 1) / 2), seconds, width, label=system)
    axes.set_yscale("log")
    axes.set_xticks(at, [each.query for each in times])
    axes.set(ylabel="processor seconds", title=f"Nexmark, {times[0].events:,} events: less is better")
    axes.grid(visible=True, axis="y", alpha=0.3)
    axes.legend(ncols=len(systems))
    save_picture(figure, path)
