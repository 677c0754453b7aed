"""Coroutines in tests."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Value = TypeVar("Value")


def awaited(coroutine: Coroutine[Any, Any, Value]) -> Value:
    """What a coroutine returns; in another thread, as a browser leaves its event loop in this."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()
