"""The built-in aggregators. `registry.py` knows all of them."""
