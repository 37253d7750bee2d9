"""The options of a start in layers: defaults, a file, the environment, and the call itself."""
