"""The topology as data: frozen nodes, and what is derived from them by walking."""
