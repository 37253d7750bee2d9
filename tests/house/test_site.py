"""The site is built from the pages and docstrings, strictly, and can be read without a network."""

import importlib.util
import os
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

import trident
import trident.errors
import trident.functions
import trident.spouts
import trident.state
import trident.testing

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mkdocstrings") is None,
    reason="mkdocs, which builds the site, is not installed: run make, which installs requirements.lock",
)


class Page(HTMLParser):
    """A built page: what it loads from elsewhere, where it leads, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.anchors |= {named[name] for name in ("id", "name") if name in named}
        if tag == "a":
            self.links += [named["href"]] if "href" in named else []
        else:
            self.loads += [named[name] for name in ("src", "href", "data") if name in named]


_ENVIRONMENT = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, env=_ENVIRONMENT, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0 and "WARNING" not in built.stderr, built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """Return the built pages by their files."""
    return {path: Page(path) for path in site.rglob("*.html")}


def test_every_link_of_the_site_leads_to_a_page_and_a_place_on_it(site: Path, pages: dict[Path, Page]) -> None:
    assert len(pages) > 50
    astray = []
    for path, page in pages.items():
        if path.name == "404.html":  # its links are those of a server's root
            continue
        for link in page.links:
            target, anchor = urldefrag(link)
            if re.match(r"[a-z]+:", target):
                continue
            there = (path.parent / unquote(target)).resolve() if target else path
            known = pages[there].anchors if there in pages else set()
            if not there.exists() or (anchor and there in pages and unquote(anchor) not in known):
                astray.append(f"{path.relative_to(site)}: {link}")
    assert astray == []


def test_no_page_loads_anything_from_a_server(site: Path, pages: dict[Path, Page]) -> None:
    assert [load for page in pages.values() for load in page.loads if re.match(r"(https?:)?//", load)] == []
    styles = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    assert [url for text in styles for url in re.findall(r"(?:url\(|@import )['\"]?(?:https?:)?//[^)]*", text)] == []


def test_the_search_needs_no_server(site: Path, pages: dict[Path, Page]) -> None:
    index = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert index.startswith("var __index = ") and "persistentAggregate" in index
    assert "site/iframe-worker.js" in pages[site / "index.html"].loads
    assert "../site/iframe-worker.js" in pages[site / "guide" / "state.html"].loads


MODULES = (trident, trident.functions, trident.spouts, trident.state, trident.testing)


BEGINNINGS = ("col", "lit", "when")


def test_the_reference_has_every_public_name_once(site: Path, pages: dict[Path, Page]) -> None:
    public = {f"{module.__name__}.{name}" for module in MODULES for name in module.__all__ if name != "errors"}
    public |= {f"trident.errors.{name}" for name, value in vars(trident.errors).items() if isinstance(value, type)}
    twice = {"trident.TridentError", "trident.errors.FailedException", *map("trident.functions.{}".format, BEGINNINGS)}
    public -= twice  # each stands on one page, by its other name
    sources = [page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / "reference").glob("*.md"))]
    shown = Counter(name for text in sources for name in re.findall(r"^::: (\S+)$", text, flags=re.MULTILINE))
    assert sorted(public - shown.keys()) == []
    assert [name for name, times in shown.items() if times > 1] == []
    anchors = {anchor for page in (site / "reference").glob("*.html") for anchor in pages[page].anchors}
    assert sorted(public - anchors) == []
