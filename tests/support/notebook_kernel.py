"""A notebook's kernel, without a notebook: cells, presses of buttons, and outputs that keep themselves up to date."""

import os
import sys
import time
from collections.abc import Callable
from queue import Empty
from typing import Any

from jupyter_client.manager import KernelManager

WIDGET = "application/vnd.jupyter.widget-view+json"


class Kernel:
    """A kernel and its only client. Cells are requests."""

    def __init__(self) -> None:
        self._manager = KernelManager(kernel_name="python3")
        self._manager.start_kernel(env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=60)
        self.forget()

    def forget(self) -> None:
        """Forget all displays."""
        self.displays: dict[str, dict[str, Any]] = {}
        """What each display shows now, by media type, in the order in which they came."""
        self.seen: list[str] = []
        """Every HTML that any display has shown."""

    def run(self, code: str, cell: str | None = None) -> str:
        """Run a cell, and return all it put out as text. `cell` is the id that a front end would send."""
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        sent = self._send("execute_request", content, {"cellId": cell} if cell else {})
        texts = list[str]()
        while True:
            try:
                reply: Any = self._client.get_iopub_msg(timeout=60)
            except Empty:
                raise AssertionError(f"the kernel does not answer to {code!r}") from None
            self._note_display(reply)
            if reply["parent_header"].get("msg_id") != sent:
                continue
            kind, given = reply["msg_type"], reply["content"]
            if kind == "stream":
                texts.append(given["text"])
            elif kind == "error":
                texts.append("\n".join(given["traceback"]))
            elif kind == "execute_result":
                texts.append(given["data"]["text/plain"])
            elif kind == "status" and given["execution_state"] == "idle":
                return "".join(texts).strip()

    def until(self, there: Callable[[], Any], timeout: float = 30) -> Any:
        """Take what the kernel sends until `there` returns something true, and return that."""
        until = time.monotonic() + timeout
        while not (found := there()):
            if time.monotonic() > until:
                raise AssertionError(f"not in {timeout} s; the displays are {self.displays}")
            try:
                self._note_display(self._client.get_iopub_msg(timeout=0.1))
            except Empty:
                continue
        return found

    def begin(self, code: str) -> None:
        """Run a cell without waiting for its end."""
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        self._send("execute_request", content, {})

    def press(self) -> None:
        """Press the one button that is shown, as JupyterLab does: in a subshell, so that a busy cell is in no way."""
        (model,) = [data[WIDGET]["model_id"] for data in self.displays.values() if WIDGET in data]
        click = {"method": "custom", "content": {"event": "click"}}
        asked = self._client.session.msg("create_subshell_request", {})
        self._client.control_channel.send(asked)
        reply = self._client.get_control_msg(timeout=30)
        message = self._client.session.msg("comm_msg", {"comm_id": model, "data": click})
        message["header"]["subshell_id"] = reply["content"]["subshell_id"]
        self._client.shell_channel.send(message)

    @property
    def shown(self) -> str:
        """All HTML that is shown now."""
        return "\n".join(data.get("text/html", "") for data in self.displays.values())

    def stop(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)

    def _send(self, kind: str, content: dict[str, Any], metadata: dict[str, Any]) -> str:
        message = self._client.session.msg(kind, content, metadata=metadata)
        self._client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def _note_display(self, message: Any) -> None:
        if message["msg_type"] in ("display_data", "update_display_data"):
            content = message["content"]
            shown = content["transient"].get("display_id") or message["header"]["msg_id"]
            if message["msg_type"] == "display_data" or shown in self.displays:
                self.displays[shown] = content["data"]
                self.seen.append(content["data"].get("text/html", ""))
