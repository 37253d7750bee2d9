"""Regular expressions with the same meaning in Java and in Python.

A pattern is read once, and written again for each engine, so that a construct whose meaning depends on the engine or
on the version of Java is spelled out or refused. Letters, digits and blanks are those of ASCII, as in Java.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from trident.base.errors import TopologyError
from trident.base.short_texts import brief

_T = TypeVar("_T")

LINE_ENDS = "\\n\\r\\u0085\\u2028\\u2029"
"""The characters that Java's dot does not match."""

_LAST_LINE = "(?=\\r\\n\\Z|(?<!\\r)\\n\\Z|[\\r\\u0085\\u2028\\u2029]\\Z|\\Z)"  # Java's $ precedes a last line end
_WORD_EDGE = "(?:(?<=[a-zA-Z0-9_])(?![a-zA-Z0-9_])|(?<![a-zA-Z0-9_])(?=[a-zA-Z0-9_]))"
_NO_WORD_EDGE = "(?:(?<=[a-zA-Z0-9_])(?=[a-zA-Z0-9_])|(?<![a-zA-Z0-9_])(?![a-zA-Z0-9_]))"
_CLASSES = {"d": "0-9", "w": "a-zA-Z0-9_", "s": " \\t\\n\\x0b\\f\\r"}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WHOLE_CHARACTERS = "(?![^\\s\\S\U00010000])"  # always true; such a character makes Java advance by whole characters
_CONDITIONS = ("(?<=", "(?<!", "(?=", "(?!")
_MOST = 1000
"""The greatest number in a ``{n,m}``."""


class BadPattern(ValueError):
    """A pattern whose meaning differs between the engines. The text names the part and the replacement."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression, written for Java and for Python."""

    text: str
    java: str
    python: str
    groups: int
    shortest: int
    """The least number of characters that it matches."""
    literal: str | None
    """The text that it matches, if it matches only one."""

    def compiled(self) -> re.Pattern[str]:
        """Return the pattern compiled for Python."""
        return re.compile(self.python, re.ASCII)


def pattern_of(text: str) -> Pattern:
    """Return the pattern of a regular expression. Raises BadPattern.

    >>> pattern_of("a+$").java
    'a+$'
    >>> pattern_of("(a|b)-").shortest
    2
    """
    return _Reader(text).whole()


@dataclass(slots=True)
class _Part:
    """A part of a pattern in both spellings, the least number of characters that it matches, and its only match."""

    java: str
    python: str
    shortest: int = 1
    literal: str | None = None
    moves: bool = True
    """True if it may be repeated; a lookaround may not."""
    branches: bool = False
    """True if it has a |: Java does not know the length of such a repeated part."""
    loops: bool = False
    """True if it repeats a part with a |."""

    @classmethod
    def same(cls, text: str, shortest: int = 1, moves: bool = True) -> "_Part":
        return cls(text, text, shortest, None, moves)


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._groups = text, 0, 0
        self._dot_is_all, self._conditions = False, 0

    def whole(self) -> Pattern:
        flags = self._flags()
        part = self._alternatives()
        if self._at < len(self._text):
            raise self._wrong("there is no ( for this )")
        opened = f"(?{flags})" if flags else ""
        literal = None if flags or self._groups else part.literal
        plain = part.shortest and not any(sign in part.java for sign in _CONDITIONS)
        java = part.java if plain else f"(?:{part.java}){_WHOLE_CHARACTERS}"
        return Pattern(self._text, opened + java, opened + part.python, self._groups, part.shortest, literal)

    def _flags(self) -> str:
        found = re.match(r"\(\?([a-zA-Z]+)\)", self._text)
        if found is None:
            return ""
        flags = found.group(1)
        other = next((flag for flag in flags if flag not in "is"), None)
        if other is not None:
            raise self._wrong(
                f"the flag {other!r} has different meanings in Java and Python; only i and s are accepted"
            )
        self._at, self._dot_is_all = found.end(), "s" in flags
        return "".join(flag for flag in "is" if flag in flags)

    def _alternatives(self) -> _Part:
        branches = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._sequence())
        if len(branches) == 1:
            return branches[0]
        return _Part(
            "|".join(branch.java for branch in branches),
            "|".join(branch.python for branch in branches),
            min(branch.shortest for branch in branches),
            branches=True,
            loops=any(branch.loops for branch in branches),
        )

    def _sequence(self) -> _Part:
        parts: list[_Part] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._one()))
        texts = [part.literal for part in parts]
        return _Part(
            "".join(part.java for part in parts),
            "".join(part.python for part in parts),
            sum(part.shortest for part in parts),
            None if None in texts else "".join(map(str, texts)),
            branches=any(part.branches for part in parts),
            loops=any(part.loops for part in parts),
        )

    def _repeated(self, part: _Part) -> _Part:
        begin = self._at
        counts = self._counts()
        if counts is None:
            return part
        least, most = counts
        sign = self._text[begin : self._at]
        if not part.moves:
            raise self._wrong(f"{sign} follows a lookaround or an anchor, which cannot be repeated", begin)
        if part.shortest == 0 and (most is None or most > 1):
            raise self._wrong(
                f"{sign} repeats a part that can match the empty string; write a part that matches a character", begin
            )
        if self._peek() == "?":
            self._at += 1
            sign += "?"
        if self._peek() and self._peek() in "*+?" or self._counts() is not None:
            raise self._wrong("a repetition follows a repetition; put the repeated part in (?:...)")
        loops = part.branches or part.loops
        return _Part(part.java + sign, part.python + sign, part.shortest * least, branches=loops, loops=loops)

    def _counts(self) -> tuple[int, int | None] | None:
        """Return the least and most repetitions that the next sign requests, and skip it; None: no such sign."""
        one = self._peek()
        if one and one in "*+?":
            self._at += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[one]
        if one != "{":
            return None
        found = re.compile(r"\{(\d{1,4})(,(\d{1,4})?)?\}", re.ASCII).match(self._text, self._at)
        if found is None:
            raise self._wrong(
                "{ begins a number of repetitions, such as {2} or {1,3}; for the character itself write \\{"
            )
        least = int(found.group(1))
        most = least if found.group(2) is None else None if found.group(3) is None else int(found.group(3))
        if max(least, most or 0) > _MOST or (most is not None and most < least):
            raise self._wrong(f"{found.group()} is not a number of repetitions up to {_MOST}")
        self._at = found.end()
        return least, most

    def _one(self) -> _Part:
        one = self._peek()
        self._at += 1
        match one:
            case "(":
                return self._group()
            case "[":
                return self._class()
            case "\\":
                return self._escaped()
            case ".":
                return _Part.same(".") if self._dot_is_all else _Part(".", f"[^{LINE_ENDS}]")
            case "^":
                return _Part.same("^", 0, moves=False)
            case "$":
                return _Part("$", _LAST_LINE, 0, None, False)
            case "*" | "+" | "?" | "{":
                raise self._wrong(
                    f"there is nothing to repeat before {one}; for the character itself write \\{one}", self._at - 1
                )
        return _character(one)

    def _group(self) -> _Part:
        begin = self._at - 1
        opened, moves = self._opened(begin)
        self._conditions += not moves
        inner = self._alternatives()
        self._conditions -= not moves
        if self._peek() != ")":
            raise self._wrong("there is no ) for this (", begin)
        self._at += 1
        java, python = f"{opened}{inner.java})", f"{opened}{inner.python})"
        if moves:
            return _Part(java, python, inner.shortest, branches=inner.branches, loops=inner.loops)
        part = _Part(java, python, 0, None, False)
        if opened in ("(?<=", "(?<!"):
            if inner.loops:
                raise self._wrong(
                    "Java cannot compute the length of a repeated group with | in a lookbehind; write the group "
                    "several times",
                    begin,
                )
            try:
                re.compile(part.python, re.ASCII)
            except re.error:
                raise self._wrong("a lookbehind must have a fixed length", begin) from None
        return part

    def _opened(self, begin: int) -> tuple[str, bool]:
        """Return how a group begins, and whether it matches characters, which a lookaround does not."""
        if self._peek() != "?":
            self._count_group(begin)
            return "(", True
        if self._text.startswith("?:", self._at):
            self._at += 2
            return "(?:", True
        for sign in _CONDITIONS:
            if self._text.startswith(sign, begin):
                self._at = begin + len(sign)
                return sign, False
        found = re.compile(r"\?<([a-zA-Z][a-zA-Z0-9]*)>").match(self._text, self._at)
        if found is None:
            raise self._wrong("a group begins with (, (?:, (?<name>, (?=, (?!, (?<= or (?<!; flags come first", begin)
        self._at = found.end()
        self._count_group(begin)
        return "(", True

    def _count_group(self, begin: int) -> None:
        if self._conditions:
            raise self._wrong(
                "Java keeps the text of a group within a lookaround longer than Python; write (?:...)", begin
            )
        self._groups += 1

    def _escaped(self) -> _Part:
        begin = self._at - 1
        one = self._peek()
        if one in ("d", "w", "s"):
            self._at += 1
            return _Part.same(f"[{_CLASSES[one]}]")
        if one in ("D", "W", "S"):
            self._at += 1
            return _Part.same(f"[^{_CLASSES[one.lower()]}]")
        edges = {"b": _WORD_EDGE, "B": _NO_WORD_EDGE, "A": "\\A"}
        if one in edges:
            self._at += 1
            return _Part(edges[one], edges[one], 0, None, False, branches=one != "A")
        if one in ("z", "Z"):
            self._at += 1
            return _Part(f"\\{one}", "\\Z" if one == "z" else _LAST_LINE, 0, None, False)
        return _character(self._character_after_escape(begin))

    def _character_after_escape(self, begin: int) -> str:
        one = self._peek()
        self._at += 1
        if one in _CONTROLS:
            return _CONTROLS[one]
        for sign, digits in (("x", 2), ("u", 4)):
            number = self._text[self._at : self._at + digits]
            if one == sign and re.fullmatch(rf"[0-9a-fA-F]{{{digits}}}", number):
                self._at += digits
                if 0xD800 <= int(number, 16) <= 0xDFFF:
                    raise self._wrong("half of a surrogate pair is not a character; write the character itself", begin)
                return chr(int(number, 16))
        if not one or one.isalnum():
            shown = f"\\{one}"
            raise self._wrong(f"{shown} has no meaning that Java and Python share; write a class such as [a-z]", begin)
        return one

    def _class(self) -> _Part:
        begin = self._at - 1
        negated = self._peek() == "^"
        self._at += negated
        made: list[str] = []
        while True:
            one = self._peek()
            if one == "]" and made:
                self._at += 1
                return _Part.same(f"[{'^' if negated else ''}{''.join(made)}]")
            if one in ("", "]", "[") or self._text.startswith("&&", self._at):
                raise self._wrong(
                    "a class contains characters, ranges, \\d, \\w and \\s; for the characters [ and ] write \\[ and "
                    "\\]",
                    begin,
                )
            made.append(self._member(begin))

    def _member(self, begin: int) -> str:
        """Return a character, a range or a known class within a class."""
        if self._text.startswith("\\", self._at) and self._text[self._at + 1 : self._at + 2] in tuple("dws"):
            self._at += 2
            return _CLASSES[self._text[self._at - 1]]
        first = self._class_character(begin)
        ranged = self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("", "]")
        if not ranged:
            return _plain(first)
        self._at += 1
        last = self._class_character(begin)
        if last < first:
            raise self._wrong(f"the range {first}-{last} is empty", begin)
        return f"{_plain(first)}-{_plain(last)}"

    def _class_character(self, begin: int) -> str:
        one = self._peek()
        if one in ("[", "]") or self._text.startswith("&&", self._at):
            raise self._wrong("within a class, [, ] and && are written with a backslash", begin)
        self._at += 1
        return self._character_after_escape(self._at - 1) if one == "\\" else one

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _wrong(self, why: str, at: int | None = None) -> BadPattern:
        place = self._at if at is None else at
        return BadPattern(f"at {place + 1}, {self._text[place : place + 10]!r}: {why}")


def _character(one: str) -> _Part:
    return _Part(_plain(one), _plain(one), 1, one)


def _plain(one: str) -> str:
    """Return a character as it is written in a pattern for both engines."""
    if one.isascii() and not one.isalnum() and one.isprintable():
        return f"\\{one}" if one not in " _" else one
    return one if one.isprintable() or ord(one) > 0xFFFF else f"\\u{ord(one):04x}"


def asked_pattern(name: str, pattern: object) -> Pattern:
    """Return the pattern that a user passes to a function. Raises TopologyError with the way out."""
    if not isinstance(pattern, str):
        raise TopologyError(f"{name}: the pattern is a text, not {brief(pattern)}")
    return _asked(name, pattern, lambda: pattern_of(pattern))


def asked_template(name: str, text: object, groups: int) -> tuple[str | int, ...]:
    """Return the parts of a replacement that a user passes. Raises TopologyError with the way out."""
    if not isinstance(text, str):
        raise TopologyError(f"{name}: the replacement is a text, not {brief(text)}")
    return _asked(name, text, lambda: template_of(text, groups))


def _asked(name: str, text: str, read: Callable[[], _T]) -> _T:
    try:
        return read()
    except BadPattern as error:
        raise TopologyError(
            f"{name}: {brief(text)}, {error}. A Python function can use any pattern of Python, and expr() any of Java"
        ) from None


def template_of(text: str, groups: int) -> tuple[str | int, ...]:
    r"""Return the parts of a replacement: texts, and the numbers of groups. Raises BadPattern.

    ``$1`` is a group, and ``\`` escapes the next character.

    >>> template_of("<$1>", 1)
    ('<', 1, '>')
    """
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        one, after = text[at], text[at + 1 : at + 2]
        if one == "\\" and not after:
            raise BadPattern("the replacement ends with a single backslash; for the character itself write \\\\")
        if one == "$":
            number, at = _group_in(text, at + 1, groups)
            parts.append(number)
            continue
        parts.append(after if one == "\\" else one)
        at += 2 if one == "\\" else 1
    return _joined(parts)


def _group_in(text: str, at: int, groups: int) -> tuple[int, int]:
    """Return the group that a ``$`` names, and the position after it: as in Java, of all digits that name a group."""
    found = re.compile(r"[0-9]", re.ASCII).match(text, at)
    if found is None:
        raise BadPattern(
            "$ in a replacement must be followed by the number of a group; for the character itself write \\$"
        )
    number, end = int(found.group()), at + 1
    if number > groups:
        raise BadPattern(f"${number} in the replacement: the pattern has {groups} groups")
    while text[end : end + 1] in tuple("0123456789") and number * 10 + int(text[end]) <= groups:
        number, end = number * 10 + int(text[end]), end + 1
    return number, end


def _joined(parts: Sequence[str | int]) -> tuple[str | int, ...]:
    made: list[str | int] = []
    for part in parts:
        if isinstance(part, str) and made and isinstance(made[-1], str):
            made[-1] += part
        else:
            made.append(part)
    return tuple(made)


def java_template(parts: Sequence[str | int]) -> str:
    r"""Return a replacement as Java reads it.

    >>> java_template(("<", 1, "2>"))
    '<$1\\2>'
    """
    return "".join(f"${part}" if isinstance(part, int) else re.sub(r"[\\$0-9]", r"\\\g<0>", part) for part in parts)
