"""Is the benchmark real? Each check sees the callable before it is timed, never while."""
