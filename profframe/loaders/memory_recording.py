"""Memory snapshots of this process; torch is imported on first use."""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from profframe.errors import MissingExtraError, ParameterError, SourceError
from profframe.loaders.options import FactOptions, check_names
from profframe.loaders.process import rank_of_process
from profframe.loaders.run_names import NamedTrace
from profframe.loaders.tables import combine
from profframe.readers.reading import read
from profframe.system.drafts import scratch
from profframe.trace.trace import Trace

_SOURCE: Final = "live memory snapshot"
_MAX_ENTRIES: Final = 1_000_000


def memory_snapshot(
    path: str | PathLike[str] | None = None, run: str | None = None, rank: int | None = None
) -> Trace:
    """Take a snapshot of what torch's CUDA memory allocator holds now.

    The snapshot also has what the allocator did before, if that was recorded: in a block of
    `record_memory`, or since ``torch.cuda.memory._record_memory_history()``.

    Parameters
    ----------
    path
        File to write the snapshot to, in the format of ``torch.cuda.memory._dump_snapshot``; None
        for no file.
    run, rank
        Run and rank of the trace; by default ``live``, and the rank of this process in its job.

    Returns
    -------
    Trace
        The snapshot, without events: `segments`, `blocks`, `allocations`, ...

    Raises
    ------
    MissingExtraError
        torch is not installed.
    SourceError
        There is no CUDA device, or torch could not write the snapshot.
    ParameterError
        ``run`` or ``rank`` has no valid value.

    Examples
    --------
    >>> held = memory_snapshot("held.pickle")  # doctest: +SKIP
    >>> held.memory_stacks()  # doctest: +SKIP
    """
    check_names(run, rank)
    memory = _allocator("memory_snapshot")
    if path is not None:
        return _taken(memory, Path(path), run, rank)
    with scratch() as folder:
        return _taken(memory, folder / "snapshot.pickle", run, rank)


def _taken(memory: Any, path: Path, run: str | None, rank: int | None) -> Trace:
    try:
        memory._dump_snapshot(str(path))  # noqa: SLF001 - has no public name
    except (OSError, RuntimeError, AttributeError) as error:
        raise SourceError(f"{path}: torch could not write a memory snapshot: {error}") from error
    raw = FactOptions().add(read(path))
    source = "argument" if rank is not None else "assumed"
    name = rank_of_process() if rank is None else rank
    trace = NamedTrace(_SOURCE, raw, run or "live", name, source)
    return Trace.from_tables(combine([trace], []))


def _allocator(name: str) -> Any:
    """Torch's CUDA memory module."""
    try:
        torch = import_module("torch")
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"profframe.{name} needs PyTorch: pip install 'profframe[torch]'"
        ) from error
    if not torch.cuda.is_available():
        raise SourceError(
            f"profframe.{name} needs a CUDA device: torch {torch.__version__} sees none. On "
            "the host, profframe.profile(profile_memory=True) records memory"
        )
    return torch.cuda.memory


class record_memory:  # noqa: N801 -- beside `profile`
    """Record what torch's CUDA memory allocator does in a block, and take a snapshot at its end.

    The snapshot is taken even if the block ends in an error, such as
    ``torch.cuda.OutOfMemoryError``. The end of the block ends any recording, so blocks cannot be
    nested.

    Parameters
    ----------
    path
        File to write the snapshot to; None for no file.
    max_entries
        Maximum records to keep, the last ones. The snapshot needs up to several KB for each, with
        its stack.
    run, rank
        As for `memory_snapshot`.
    **arguments
        Other arguments of ``torch.cuda.memory._record_memory_history``, such as
        ``stacks="python"``.

    Raises
    ------
    MissingExtraError
        torch is not installed.
    SourceError
        There is no CUDA device, or torch could not write the snapshot.
    ParameterError
        An argument is invalid.

    Examples
    --------
    >>> with profile() as prof, record_memory("snapshot.pickle") as recording:  # doctest: +SKIP
    ...     train()
    >>> recording.trace.out_of_memory()  # doctest: +SKIP
    >>> load(prof, memory="snapshot.pickle").memory_owners()  # doctest: +SKIP
    """

    def __init__(
        self,
        path: str | PathLike[str] | None = None,
        max_entries: int = _MAX_ENTRIES,
        run: str | None = None,
        rank: int | None = None,
        **arguments: Any,
    ) -> None:
        check_names(run, rank)
        if type(max_entries) is not int or max_entries < 1:
            raise ParameterError(f"max_entries: needs an integer above 0, not {max_entries!r}")
        self._path = path
        self._names = run, rank
        self._arguments = arguments | {"max_entries": max_entries}
        self._trace: Trace | None = None

    def __enter__(self) -> Self:
        memory = _allocator("record_memory")
        try:
            memory._record_memory_history(**self._arguments)  # noqa: SLF001
        except (TypeError, ValueError) as error:
            raise ParameterError(f"torch refused to record memory: {error}") from error
        self._trace = None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        place: TracebackType | None,
    ) -> None:
        memory = _allocator("record_memory")
        try:
            self._trace = memory_snapshot(self._path, *self._names)
        except SourceError:
            if error is None:  # the error of the block says more
                raise
        finally:
            memory._record_memory_history(enabled=None)  # noqa: SLF001

    @property
    def trace(self) -> Trace:
        """The snapshot taken at the end of the block.

        Raises
        ------
        SourceError
            The block has not ended.
        """
        if self._trace is None:
            raise SourceError("no snapshot yet: it is taken when the block ends")
        return self._trace
