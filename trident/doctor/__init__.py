"""`trident doctor`: checks of the environment in which a topology is to run, each with a remedy."""
