"""`Trace`: the tables of one or many traces, and all questions about them."""
