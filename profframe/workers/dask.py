"""The workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from profframe.errors import MissingExtraError, ParameterError

if TYPE_CHECKING:
    from distributed import Client


@contextmanager
def dask_client(address: str) -> Iterator[Client]:
    """A client of a cluster, for a block.

    Parameters
    ----------
    address
        Address of the scheduler: ``tcp://host:8786``.

    Raises
    ------
    MissingExtraError
        Dask is not installed.
    ParameterError
        There is no scheduler.
    """
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtraError(
            "a Dask cluster needs distributed: pip install 'profframe[dask]'"
        ) from None
    try:
        client = Client(address)
    except (OSError, ValueError) as error:
        raise ParameterError(f"{address}: no Dask scheduler there: {error}") from error
    with client:
        yield client


@contextmanager
def dask_workers(address: str) -> Iterator[Executor]:
    """An executor on a cluster, for a block; errors are those of `dask_client`."""
    with dask_client(address) as client:
        yield client.get_executor()
