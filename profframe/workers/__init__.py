"""Processes and machines that work on parts: of a batch of files, or of a question.

Nothing is imported here: a worker limits threads before it imports libraries that start threads.
"""
