"""Time a callable: warm-up, trials, clocks, timers and back ends."""
