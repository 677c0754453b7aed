"""Files elsewhere, by URLs that fsspec takes: the only place that opens them.

::

    urls            what a URL says by itself
    file_systems    files and folders of a URL: listed, copied, and errors that name it
    web             where a server may lead to
"""
