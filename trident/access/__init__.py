"""States by their names, from outside of the run that writes them: opened, listed, exported, dropped."""
