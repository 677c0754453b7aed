"""Loading a live profile of torch."""

from __future__ import annotations

from dataclasses import replace

from profframe.errors import ParameterError
from profframe.loading.options import LoadOptions
from profframe.loading.run_names import NamedTrace
from profframe.loading.tables import combine
from profframe.readers import torch as live
from profframe.trace.trace import Trace


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
