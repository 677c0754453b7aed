"""Answers kept beside the events of a store, run by run.

::

    <store>/kept/<time>-<digest>/records.parquet     which answers of which runs, of what
    <store>/kept/<time>-<digest>/members.parquet     rows of `traces` of these runs
    <store>/kept/<time>-<digest>/<answer>.parquet    rows of an answer

A folder is written aside and published by one rename, and never changed. Its records say for which
members of a run the rows were computed: each by its folder and that folder's identity, and by a
digest of its row of `traces`, which stays the same when it is packed or copied. So rows of a run
that was written again are not taken for its answers. A folder that folds others has their rows; a
run that several have is read from one of them. Rows of a run without events are its history:
`free` has marked it before its events were removed.
"""
