"""The catalogue of a store: who its members are, as Parquet, read by column and by row group.

`segments` has the files, on a file system and on an object store; `rows` what a row says; `listing`
compares the catalogue with the folders; `upkeep` keeps it.
"""
