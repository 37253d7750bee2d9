"""Access to states by their names, from outside the run that writes them: open, list, export and drop."""
