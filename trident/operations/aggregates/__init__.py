"""The built-in aggregators. `registry.py` lists all of them."""
