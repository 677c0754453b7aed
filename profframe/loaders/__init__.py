"""Sources of a `Trace`: files, stores, and profiles of torch that are still in memory."""
