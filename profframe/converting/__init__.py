"""Many files into one store, on any number of processes or machines.

Nothing is imported here: a worker limits its threads before it imports what has some.
"""
