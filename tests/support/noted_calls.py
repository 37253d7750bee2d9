"""Calls that a user's object gets, noted in their order; some of them raise."""


class NotedCalls:
    """Notes every call. `fails`: calls that raise, once each."""

    def __init__(self, *fails: str) -> None:
        self.calls: list[str] = []
        self.fails = list(fails)

    def note(self, call: str) -> None:
        self.calls.append(call)
        if call in self.fails:
            self.fails.remove(call)
            raise RuntimeError(f"{call} was to fail")
