"""Plain-Python definitions of the facts, slow and obvious, to test the fast ones against."""
