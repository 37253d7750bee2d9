"""From plan to work: batch groups and stages, and the two engines that run them."""
