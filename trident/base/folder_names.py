"""The texts of values in the names of folders, as Spark and Hive write them."""

_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(32)}

ESCAPED_SIGNS = r"""[\x00-\x1f"#%\x27*/:=?\\{\[\]^\x7f]"""
"""The same signs, as a regular expression of Java and of RE2."""

LONGEST_NAME = 255
"""The most bytes in the name of a folder."""


def escaped(text: str) -> str:
    """Return a text as Spark and Hive write it into the name of a folder.

    NUL, which no file name can hold, is escaped too.

    >>> escaped("a/b=c"), escaped(chr(0))
    ('a%2Fb%3Dc', '%00')
    """
    return "".join(f"%{ord(sign):02X}" if sign in _ESCAPED else sign for sign in text)
