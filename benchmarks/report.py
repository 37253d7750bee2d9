"""The result as JSON and as a Markdown table, with the machine and the versions that it holds for."""

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.row import Row
from tests.support.server import server_version
from trident.base.java import java_version, machine_java

RESULTS = Path(__file__).parent / "results"


def results_folder(out: Path | None, quick: bool) -> Path:
    """Return the folder for figures, which exists: `out` if it is given, otherwise that of this repository."""
    folder = out or (RESULTS / "quick" if quick else RESULTS)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def save_picture(figure: Figure, path: Path) -> None:
    """Write a picture whose text can be searched, and which is the same for the same figures."""
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "trident"}):
        figure.savefig(path, metadata={"Date": None})


def save_bars(
    groups: Sequence[str], bars: Mapping[str, Sequence[float]], title: str, unit: str, path: Path, width: float = 8.0
) -> None:
    """Draw a group of bars for each name in `groups`, on a logarithmic scale. `bars` has a value for each group."""
    figure = Figure(figsize=(width, 4.0), layout="constrained")
    axes, share = figure.subplots(), 0.8 / len(bars)
    for number, (name, values) in enumerate(bars.items()):
        places = [at + share * (number - (len(bars) - 1) / 2) for at in range(len(groups))]
        axes.bar(places, values, share, label=name)
    axes.set_yscale("log")
    axes.set_xticks(range(len(groups)), groups)
    axes.set(ylabel=unit, title=title)
    axes.grid(visible=True, axis="y", alpha=0.3)
    axes.legend(ncols=len(bars))
    save_picture(figure, path)


def write_report(rows: Sequence[Row], notes: dict[str, Any], folder: Path = RESULTS) -> None:
    """``latest.json`` and ``latest.md`` in `folder`. `notes`: how it was measured (rounds, sizes, confs, a remark)."""
    folder.mkdir(parents=True, exist_ok=True)
    date = datetime.now(UTC).isoformat(timespec="seconds")
    report = {"machine": machine(), "versions": versions(), "date": date, **notes}
    report["rows"] = [row.as_dict() for row in rows]
    (folder / "latest.json").write_text(json.dumps(report, indent=1) + "\n")
    (folder / "latest.md").write_text(markdown(rows, report))


def machine() -> dict[str, Any]:
    """Return what the figures depend on: machine, versions, commit; nothing private."""
    return {"system": platform.system(), "arch": platform.machine(), "cpu": _cpu(), "cores": os.cpu_count()}


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    models = [line for line in info.read_text().splitlines() if line.startswith("model name")] if info.exists() else []
    return models[0].partition(": ")[2] if models else platform.processor()


def versions() -> dict[str, str]:
    """Of everything that a figure depends on."""
    packages = ("pyspark", "pyarrow", "redis", "hiredis", "trident-pyspark")
    versions = {name: version(name) for name in packages}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return {
        "python": platform.python_version(),
        **versions,
        "java": str(java_version(machine_java() or "java")),
        "server": server_version(),
        "commit": commit.stdout.strip() or "none",
    }


def markdown(rows: Sequence[Row], report: dict[str, Any]) -> str:
    """Write the table: our figure, the other's, their ratio, and the target."""
    of = report["machine"]
    lines = [
        f"{report['date'][:10]}, {of['cores']} cores ({of['cpu']}), "
        + ", ".join(f"{name} {number}" for name, number in report["versions"].items()),
        *(["", report["remark"]] if report.get("remark") else []),
        "",
        "| what | ours | other | unit | ratio | target | |",
        "|---|---:|---:|---|---:|---:|---|",
    ]
    for row in rows:
        other, ratio = (
            ("" if row.other is None else _shown(row.other)),
            ("" if row.ratio is None else f"{row.ratio:.2f}"),
        )
        target = "" if row.target is None else f"{row.bound} {row.target:g}"
        met = {True: "met", False: "**missed**", None: ""}[row.ok]
        lines.append(f"| {row.what} | {_shown(row.ours)} | {other} | {row.unit} | {ratio} | {target} | {met} |")
    return "\n".join(lines) + "\n"


def _shown(figure: float) -> str:
    return f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:.3g}"
