"""Content of files for other tools: lines as Arrow text, a batch at a time.

DuckDB makes the lines, and no event becomes a Python object. `profframe.export` writes them.
"""
