"""Names of options that a FileSpout does not have, each with the object that has it, for the error."""

_BOTH = "it is an option of the format: FileSpout(path, Csv({name}={{value}})), or Json({name}={{value}})"
_LINES = "it is an option of the format: FileSpout(path, Text({name}={{value}})), or Json(...) or Csv(...)"
_CSV = "it is an option of the format: FileSpout(path, Csv({name}={{value}}))"
_WATCH = "it is an option of Watch: FileSpout(path, watch=Watch({name}={{value}}))"

MOVED = {
    **{name: _CSV.format(name=name) for name in ("sep", "quote", "escape", "header", "skipLines", "nullValue")},
    **{name: _BOTH.format(name=name) for name in ("malformed", "numbers", "timeZone", "multiLine")},
    "encodingErrors": _LINES.format(name="encodingErrors"),
    **{name: _WATCH.format(name=name) for name in ("completeAfterSecs", "rememberedFiles", "onForgotten")},
    "manifest": "give a Manifest as the path: FileSpout(Manifest('files.txt'))",
    "delimiter": _CSV.format(name="sep"),
    "separator": _CSV.format(name="sep"),
    "skip_rows": _CSV.format(name="skipLines"),
    "skiprows": _CSV.format(name="skipLines"),
    "skip_lines": _CSV.format(name="skipLines"),
    "mode": "to keep malformed lines write FileSpout(path, Csv(malformed='keep')), or Json(malformed='keep')",
    "maxBytesPerTrigger": "maxBytesPerBatch",
    "maxFilesPerTrigger": "maxFilesPerBatch",
    "storage_options": "storage",
}
"""By the name of the refused option: the name of the right option, or a sentence.

``{value}`` in it is replaced by the user's value.
"""
