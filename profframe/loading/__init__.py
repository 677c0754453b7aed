"""From a source, a file or a live profile or a store, to a `Trace`."""
