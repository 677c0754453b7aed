"""Convert many files into one store, on any number of processes or machines.

Nothing is imported here: a worker limits threads before it imports libraries that start threads.
"""
