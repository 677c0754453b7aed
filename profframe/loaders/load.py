"""`load`: any source as a `Trace`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profframe.errors import NotATraceError, ParameterError, explain_unknown_arguments
from profframe.facts.device_catalogue import Devices
from profframe.facts.kernel_categories import Categories
from profframe.loaders.discovery import Files, LiveProfile, Source, StoreFolder, discover
from profframe.loaders.options import FACT_OPTIONS, LoadOptions, Progress, fact_options
from profframe.loaders.remote_copies import fetched
from profframe.loaders.run_names import NamedTrace
from profframe.loaders.tables import combine
from profframe.loaders.trace_files import open_files, open_or_keep
from profframe.query.selection import Numbers, Text
from profframe.readers import torch as live
from profframe.system.forks import check_threads
from profframe.system.memory_pool import system_memory
from profframe.trace.trace import Trace

if TYPE_CHECKING:
    from profframe.facts.formulas import Formula
    from profframe.facts.kinds import Rule
    from profframe.facts.nodes import Registry


def open_profile(profile: object, options: LoadOptions) -> Trace:
    """A finished profile as a trace; its rank is that of this process in its job, if any.

    Raises
    ------
    SourceError
        The profile is still running.
    ParameterError
        There is a cache, which is for files only.
    """
    if options.cache is not None:
        raise ParameterError(
            "cache works only for files; to keep a live profile, write "
            "load(profile).to_parquet(path)"
        )
    from profframe.readers.torch import reading

    facts, rank = options.facts, options.rank
    if facts.fx_metadata is None:
        facts = replace(facts, fx_metadata=live.fx_metadata())
    raw = facts.add(reading.read(profile, wants_categories=facts.memory is not None))
    rank_source = "argument"
    if rank is None:
        job_rank = raw.header.rank
        rank = 0 if job_rank is None else job_rank
        rank_source = "assumed" if job_rank is None else raw.header.rank_source
    trace = NamedTrace(live.describe(profile), raw, options.run or "live", rank, rank_source)
    return options.select(Trace.from_tables(combine([trace], [])))


def open_store(path: Path, options: LoadOptions) -> Trace:
    """A store as a trace; only files with the selected runs and ranks are opened.

    Raises
    ------
    ParameterError
        An option changes how traces are loaded, which does not apply to a store.
    StoreError, StoreVersionError
        It is damaged, or of another schema version.
    UnknownNameError
        There is no such run, rank or step.
    """
    for name in options.facts.given:
        raise ParameterError(f"{name} {FACT_OPTIONS[name].reason}")
    if options.run is not None or options.rank is not None:
        raise ParameterError("run and rank apply to traces; for a store use .filter(runs=, ranks=)")
    trace = Trace.from_store(path, runs=options.runs, ranks=options.ranks)
    return trace.with_limits(options.memory_limit).filter(steps=options.steps)


@explain_unknown_arguments
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
    provenance: Source | Sequence[Source] | None = None,
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
        A trace file, recognised by its content (Chrome trace JSON, an execution trace or
        rocprofv3's JSON, plain or compressed, or a database from rocprofv3, nvprof or Nsight
        Systems), a zip or tar archive of traces, a glob, a directory of traces (not recursive; a
        glob with ``**`` is), a URL of any of these that fsspec takes (``s3://bucket/a.json.gz``), a
        list of these, or a Parquet store, at a path or a URL. Each trace in a file with several
        traces, as written by torch's
        ``combine_with``, is a separate run; each of several ranks that a tool merged into one file
        is a rank of one run. Or a
        finished profile: a `profframe.profile`, a ``torch.profiler.profile``, a
        ``torch.autograd.profiler.profile``, its ``kineto_results``, an ``EventList`` or a list of
        ``FunctionEvent``; it is not changed.
    run, rank
        Run and rank of what is loaded; by default from the trace itself and its path. A live
        profile is the run ``live``, with this process's rank in ``torch.distributed``.
    cache
        Directory that keeps loaded traces as a store, so the next load of the same content takes
        milliseconds, and answers about them; and copies of URLs, each as long as its etag (or size
        and time) is the same.
    kinds
        Classifier that replaces `profframe.facts.kinds.RULES`.
    compat
        ``"torch"`` for facts as in torch's own ``events()``, even where they are wrong: device time
        by External id, stacks of backward functions without a sequence number, and FLOPs of
        convolutions without padding, as in ``torch._inductor.analysis``.
    fx_metadata
        Names and model lines of the nodes of compiled graphs:
        ``torch.fx.traceback._FX_METADATA_REGISTRY`` of the recording process, or its JSON. A live
        profile takes it from there.
    formulas
        Formulas for the work of ops, by name, that add to or replace those of
        `profframe.facts.formulas.FORMULAS`; None removes the formula of an op.
    devices
        Device models that take precedence over ``profframe/facts/devices.json``, in the form that
        `profframe.facts.device_catalogue` describes: a mapping by name, or a JSON file.
    kernel_categories
        Kernel categories that take precedence over ``profframe/facts/kernel_categories.json``, in
        the form that `profframe.facts.kernel_categories` describes: ``{"^my_a2a":
        "expert_parallel"}``, or a JSON file.
    captures
        A trace, glob or folder of traces, or a list of these, that recorded the capture of the
        graphs that this trace replays: the work of each replay gets the op, module and Python stack
        of the captured call. Captures in the trace itself are used without this. Files that torch's
        ``dump_kernel_py_stacks`` wrote, of the same processes, have the Python stacks of kernels
        whose capture was not recorded.
    execution_trace
        A file that torch's ``ExecutionTraceObserver`` wrote for the same process, or a list or glob
        of them for several ranks: the tables `nodes` and `tensors` have the tensors of each op, and
        `flows` of category ``data`` lead from the op that wrote a tensor to those that read it.
    memory
        A memory snapshot of the same process (`torch.cuda.memory._dump_snapshot`), or a list or
        glob of them for several ranks: its tables join those of the trace, and each allocation has
        its op, step and category. ``load([trace, snapshot])`` does the same if both have the same
        run and rank.
    provenance
        What Inductor wrote about the kernels that it compiled, with ``INDUCTOR_PROVENANCE=1``: a
        log of ``TORCH_TRACE``, a file, a package of AOTInductor, a folder that `tlparse` or
        ``TORCH_COMPILE_DEBUG`` made, a glob or a list of these. The table `compiled_kernels` has
        the nodes and stacks of each kernel, ``events.compiled_kernel_id`` leads to it, and host
        calls of kernels without a stack get one.
    runs, ranks, steps
        What to keep, as for `Trace.filter`. In a store, no other files are opened, and questions
        read only the columns that they need.
    memory_limit
        Memory for questions, such as ``"2GB"``, as for `Trace.with_limits`.
    progress
        Called with the bytes read so far and the total.

    Returns
    -------
    Trace
        All loaded traces in one; ``.quality`` says what was repaired, dropped or skipped.

    Raises
    ------
    NoTraceFoundError
        The path does not exist, or is a directory without traces.
    NotATraceError
        A file is not a trace.
    SourceError
        A file cannot be read, or a profile is still running.
    UnknownNameError
        There is no such run, rank or step.

    Examples
    --------
    >>> trace = load("examples/cpu_training.json.gz")
    >>> trace.self_times().columns[:4]
    ['run', 'rank', 'name', 'kind']
    """
    facts = fact_options(locals())
    check_threads()
    options = LoadOptions(run, rank, cache, facts, runs, ranks, steps, memory_limit, progress)
    match discover(source):
        case LiveProfile(profile):
            return open_profile(profile, options)
        case StoreFolder(path):
            return open_store(path, options)
        case Files() as files:
            return open_files(fetched(files, options.cache, progress), options)


@system_memory()
def load_from_cache(
    source: Source | Sequence[Source] | Files,
    folder: Path,
    *,
    run: str | None = None,
    rank: int | None = None,
    progress: Progress | None = None,
    **facts: Any,
) -> tuple[Trace, Callable[[], bool] | None]:
    """Load files as `load` does, from a cache if it has them; else what writes them there.

    Raises
    ------
    StoreError, ExportError
        The cache cannot be used.
    """
    check_threads()
    options = LoadOptions(run, rank, facts=fact_options(facts), progress=progress)
    files = discover(source)
    if not isinstance(files, Files):
        raise ParameterError("a cache is for files")
    return open_or_keep(fetched(files, folder, progress), options, folder)


def load_nvprof(path: Source, run: str | None = None, rank: int | None = None) -> Trace:
    """Load a database written by ``nvprof -o``; any other trace is an error.

    Parameters
    ----------
    path
        The database.
    run, rank
        As for `load`.

    Returns
    -------
    Trace
        As from `load`: markers are host ops and annotations that own the kernels launched inside
        them, on their own thread.

    Raises
    ------
    NotATraceError
        It is not an nvprof database.
    SourceError
        It cannot be read.

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
