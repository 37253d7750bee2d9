"""Expressions over the fields of a stream that both engines compute, with one meaning: that of Spark in ANSI mode."""
