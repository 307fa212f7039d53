"""The runtime of AsOfJoin: both sides in order of time, which row is the nearest, what leaves now and what waits."""
