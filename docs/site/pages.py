"""Make pages for the site from files of the repository, whose links are those of the repository's own tree."""

import re
import tomllib
from pathlib import Path
from posixpath import join, normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
REPOSITORY: str = _PROJECT["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"].rstrip("/")
"""The address of the published repository, or empty: then files that are no pages are named without a link."""

PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "docs/decisions": "decisions.md",
}
"""What is no page below docs/, each with the page that the site has for it."""

_CODE = r"^```.*?^```|`[^`\n]+`"
_LINK = r"(?<!!)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])+)\]\((?![a-z]+:|#)(?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)"
_CODE_OR_LINK = re.compile(f"{_CODE}|{_LINK}", flags=re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> None:
    if REPOSITORY:
        config.repo_url = REPOSITORY


def on_files(files: Files, config: MkDocsConfig) -> None:
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    files.append(File.generated(config, "decisions.md", content=_decisions()))


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    return with_links_of_the_site(markdown, page.file.src_uri)


def with_links_of_the_site(markdown: str, name: str) -> str:
    """Return the text of the page `name` with links that lead somewhere on the site; code stays as it is."""
    source = name if name in PAGES else f"docs/{name}"

    def link(match: re.Match[str]) -> str:
        if match["target"] is None:
            return match[0]
        text, target, anchor = match["text"], normpath(join(source, "..", match["target"])), match["anchor"] or ""
        page = PAGES.get(target, target.removeprefix("docs/") if target.startswith("docs/") else None)
        if page is not None:
            return f"[{text}]({relpath(page, join(name, '..'))}{anchor})"
        return f"[{text}]({REPOSITORY}/blob/main/{target}{anchor})" if REPOSITORY else text

    return _CODE_OR_LINK.sub(link, markdown)


def _decisions() -> str:
    """Return the page that lists all decisions."""
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    titles = [page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ") for page in pages]
    lines = [f"- [{title}](decisions/{page.name})" for page, title in zip(pages, titles, strict=True)]
    return "\n".join(["# Decisions", "", "The reasons, a page for each.", "", *lines, ""])
