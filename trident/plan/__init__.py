"""The plan of a topology: frozen nodes, and everything that is derived by a walk over them."""
