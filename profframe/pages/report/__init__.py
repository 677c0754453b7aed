"""One self-contained HTML page about everything in a trace."""
