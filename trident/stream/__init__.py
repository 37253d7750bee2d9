"""The fluent skin: one file a family of verbs."""
