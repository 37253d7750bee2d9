"""What the library costs, measured against Spark alone and against what one would write by hand: ``make bench``."""
