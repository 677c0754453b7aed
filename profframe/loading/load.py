"""`load`: any source as a `Trace`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from profframe.errors import NotATraceError, naming_arguments
from profframe.facts.kernel_categories import Categories
from profframe.facts.models import Devices
from profframe.loading.discovery import Files, Profile, Source, StoreFolder, discover
from profframe.loading.files import open_files
from profframe.loading.options import LoadOptions, Progress, fact_options
from profframe.loading.profiles import open_profile
from profframe.loading.stores import open_store
from profframe.query.selection import Numbers, Text
from profframe.system.memory_pool import system_memory
from profframe.trace.trace import Trace

if TYPE_CHECKING:
    from profframe.facts.formulas import Formula
    from profframe.facts.kinds import Rule
    from profframe.facts.nodes import Registry


@naming_arguments
@system_memory()
def load(
    source: Source | Sequence[Source] | Any,
    run: str | None = None,
    rank: int | None = None,
    cache: Source | None = None,
    *,
    kinds: Sequence[Rule] | None = None,
    compat: str | None = None,
    fx_metadata: Registry | None = None,
    formulas: Mapping[str, Formula | None] | None = None,
    devices: Devices | None = None,
    kernel_categories: Categories | None = None,
    captures: Source | Sequence[Source] | None = None,
    execution_trace: Source | Sequence[Source] | None = None,
    memory: Source | Sequence[Source] | None = None,
    runs: Text | None = None,
    ranks: Numbers | None = None,
    steps: Numbers | None = None,
    memory_limit: str | None = None,
    progress: Progress | None = None,
) -> Trace:
    """Load traces, or open a store.

    Parameters
    ----------
    source
        A trace file (Chrome trace JSON or an execution trace, plain, gzip or zstd, or a database of
        nvprof or Nsight Systems: known by content), a glob, a directory of traces (not recursive; a
        glob with ``**`` is), a list of these, or a Parquet store. A file of several traces, as
        torch's ``combine_with`` writes it, is a run for each. Or a finished profile: a
        `profframe.profile`, a ``torch.profiler.profile``, a ``torch.autograd.profiler.profile``,
        its ``kineto_results``, an ``EventList`` or a list of ``FunctionEvent``; it stays as it is.
    run, rank
        Names for what is loaded; by default from the trace itself and its path. A live profile is
        the run ``live`` of this process's rank in ``torch.distributed``.
    cache
        Directory that keeps what was loaded as a store, so that the next load of the same content
        opens in milliseconds.
    kinds
        Classifier that replaces `profframe.facts.kinds.RULES`.
    compat
        ``"torch"`` for facts as torch's own ``events()`` has them, also where those are wrong:
        device time by External id, stacks of backward functions without a sequence number, and
        FLOPs of convolutions without padding, as in ``torch._inductor.analysis``.
    fx_metadata
        What the nodes of compiled graphs are called and where in the model they are from, as
        ``torch.fx.traceback._FX_METADATA_REGISTRY`` has it in the process that recorded; its JSON
        does, too. For a live profile it is taken from there.
    formulas
        Work of ops, by their names, that `profframe.facts.formulas.FORMULAS` does not have or has
        otherwise; None for an op whose formula is not to be used.
    devices
        Models of devices beside and before those of ``profframe/facts/devices.json``, in the form
        that `profframe.facts.models` describes: a mapping by their names, or a JSON file.
    kernel_categories
        What kernels are, before what ``profframe/facts/kernel_categories.json`` says, in the form
        that `profframe.facts.kernel_categories` describes: ``{"^my_a2a": "expert_parallel"}``, or
        a JSON file.
    captures
        A trace, glob or folder of traces, or a list of these, in which the graphs were captured
        that this trace replays: the work of each replay gets the op, module and Python stack of
        the call that was captured. Captures in the trace itself are used without this.
    execution_trace
        A file that torch's ``ExecutionTraceObserver`` wrote of the same process, or a list or glob
        of them for several ranks: the tables `nodes` and `tensors` have the tensors of each op, and
        `flows` of the category ``data`` lead from the op that wrote one to those that read it.
    memory
        A memory snapshot of the same process (`torch.cuda.memory._dump_snapshot`), or a list or
        glob of them for several ranks: its tables are beside those of the trace, and each
        allocation has its op, step and category. ``load([trace, snapshot])`` does that too, where
        both have the same run and rank.
    runs, ranks, steps
        What to keep, as for `Trace.filter`. Of a store, no other files are opened, and questions
        read the columns that they need.
    memory_limit
        Memory for questions, such as ``"2GB"``, as for `Trace.limited`.
    progress
        Called with the bytes that are read and all bytes.

    Returns
    -------
    Trace
        All of them in one; ``.quality`` says what was repaired, dropped or skipped.

    Raises
    ------
    NoTraceFoundError
        When the path leads nowhere, or to a directory without traces.
    NotATraceError
        When a file is not a trace.
    SourceError
        When a file cannot be read, or a profile is still running.
    UnknownNameError
        When there is no such run, rank or step.

    Examples
    --------
    >>> trace = load("examples/cpu_training.json.gz")
    >>> trace.self_times().columns[:4]
    ['run', 'rank', 'name', 'kind']
    """
    facts = fact_options(
        kinds,
        compat,
        fx_metadata,
        formulas,
        devices,
        kernel_categories,
        captures,
        execution_trace,
        memory,
    )
    options = LoadOptions(run, rank, cache, facts, runs, ranks, steps, memory_limit, progress)
    match discover(source):
        case Profile(profile):
            return open_profile(profile, options)
        case StoreFolder(path):
            return open_store(path, options)
        case Files() as files:
            return open_files(files, options)


def load_nvprof(path: Source, run: str | None = None, rank: int | None = None) -> Trace:
    """Load a database that ``nvprof -o`` wrote; any other trace is an error.

    Parameters
    ----------
    path
        The database.
    run, rank
        As `load` takes them.

    Returns
    -------
    Trace
        Like that of `load`: markers as host ops and annotations with the kernels that were
        launched in them, on their own thread.

    Raises
    ------
    NotATraceError
        When it is not a database of nvprof.
    SourceError
        When it cannot be read.

    Examples
    --------
    >>> try:
    ...     load_nvprof("examples/cpu_training.json.gz")
    ... except NotATraceError as error:
    ...     print(str(error).partition(": ")[2])
    a trace of format 'kineto', not of nvprof: profframe.load reads it
    """
    trace = load(path, run, rank)
    others = set(trace.traces["format"]) - {"nvprof"}
    if others:
        raise NotATraceError(
            f"{os.fspath(path)}: a trace of format {min(others)!r}, not of nvprof: profframe.load "
            "reads it"
        )
    return trace
