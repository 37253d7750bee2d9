"""The README as PyPI shows it, which has no other file of this repository: relative links are rewritten or removed."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"\[([^\]]+)\]\((?![a-z]+:|#)([^)]+)\)")


class ReadmeHook(MetadataHookInterface):
    """Sets the readme, and the project's addresses once `repository` has one in pyproject.toml."""

    def update(self, metadata: dict[str, Any]) -> None:
        repository = str(self.config.get("repository", "")).rstrip("/")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": with_working_links(text, repository)}
        if repository:
            files = f"{repository}/blob/main"
            metadata["urls"] = {
                "Repository": repository,
                "Documentation": f"{files}/docs/index.md",
                "Changelog": f"{files}/CHANGELOG.md",
            }


def with_working_links(text: str, repository: str) -> str:
    """Return Markdown whose links to files of the repository are absolute; without an address, they are plain text."""
    return _LINK.sub(rf"[\1]({repository}/blob/main/\2)" if repository else r"\1", text)
