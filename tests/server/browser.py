"""A real browser: Chromium of this machine, without a window, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def out_of_reach() -> str:
    """Return why there is no browser here; "" if there is one."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError as error:
        return f"the page is tested in a browser by the package playwright: {error}"
    if _program() is None:
        return f"the page is tested in a browser, and there is none of {', '.join(NAMES)} (CHROMIUM= names another)"
    return ""


def _program() -> str | None:
    named = os.environ.get("CHROMIUM")
    return named or next((path for path in map(shutil.which, NAMES) if path is not None), None)


@contextmanager
def chromium() -> Iterator[Any]:
    """Start the browser, and yield it as Playwright has it. Skips the test where there is none."""
    if reason := out_of_reach():
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Chromium's own sandbox needs rights that root lacks in a container. Only this machine's page is opened.
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
        browser = playwright.chromium.launch(executable_path=_program(), args=arguments)
        try:
            yield browser
        finally:
            browser.close()


def axe() -> str:
    """Return the source of axe-core. Skips the test where it is not installed."""
    package = pytest.importorskip("axe_playwright_python", reason="axe-core comes with axe-playwright-python")
    (source,) = Path(package.__file__).parent.rglob("axe.min.js")
    return source.read_text(encoding="utf-8")
