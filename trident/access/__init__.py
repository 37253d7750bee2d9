"""Access to states from outside of the run that writes them: open, list, export and drop them by name."""
