"""A running topology in a notebook: its table, its live states, and the button that stops it."""
