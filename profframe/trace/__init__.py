"""`Trace`: the tables of one or many traces, and all that can be asked of them."""
