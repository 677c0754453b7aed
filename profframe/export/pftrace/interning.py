"""Texts that events refer to by numbers, which an earlier packet assigns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe.export.pftrace import wire
from profframe.intervals import Ints

CATEGORY: Final = 1
NAME: Final = 2
ARGUMENT: Final = 3
"""Kinds of texts, as they are numbered in a packet."""
_MOST: Final = 1 << 17
"""Maximum texts of a kind that are known at once."""


@dataclass(slots=True)
class Interned:
    """The texts that have numbers, by kind, and those that no packet has assigned yet."""

    texts: dict[int, pa.Array] = field(default_factory=dict)
    new: list[bytes] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Whether it is time to forget."""
        return any(len(texts) > _MOST for texts in self.texts.values())

    def forget(self) -> None:
        """Start again, which a packet must announce."""
        self.texts.clear()

    def numbers(self, kind: int, texts: pa.Array) -> Ints:
        """The number of each text; 0 means NULL."""
        encoded = texts.cast(pa.large_string()).dictionary_encode()
        distinct = encoded.dictionary
        earlier = self.texts.get(kind, pa.array([], pa.large_string()))
        place = pc.index_in(distinct, earlier)
        new = distinct.filter(pc.is_null(place))
        if len(new):
            iids = np.arange(len(earlier) + 1, len(earlier) + 1 + len(new))
            entries = [*wire.numbers(1, iids), *wire.lengths(2, [wire.texts(new)])]
            messages = wire.joined(wire.lengths(kind, entries))
            self.new.append(bytes(wire.contents(messages)))
            self.texts[kind] = earlier = pa.concat_arrays([earlier, new])
            place = pc.index_in(distinct, earlier)
        iid = np.append(place.to_numpy().astype(np.int64) + 1, 0)
        numbers: Ints = iid[pc.fill_null(encoded.indices, len(distinct)).to_numpy()]
        return numbers

    def take(self) -> bytes | None:
        """Definitions of new texts, for the next packet."""
        new, self.new = self.new, []
        return b"".join(new) or None
