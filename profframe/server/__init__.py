"""Answers for programs: results that fit a budget, and a server that returns them."""
