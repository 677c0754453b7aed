"""Text of several lines that a prompt or notebook shows as it is, without ``print``."""

from __future__ import annotations

from profframe.show import notebook


class Lines(str):
    r"""Lines of text with aligned columns, whose ``repr`` is the text; otherwise a str.

    Examples
    --------
    >>> Lines("a  1\nb  2")
    a  1
    b  2
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return notebook.text_html(self)
