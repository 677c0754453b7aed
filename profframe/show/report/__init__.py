"""One self-contained HTML page with everything that a trace has to say."""
