"""Asking: what is selected, which rows there are, and the SQL that answers."""
