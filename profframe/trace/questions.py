"""The questions that a trace answers: a method of one line for each file of ``sql/``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from os import PathLike
from typing import TYPE_CHECKING

from profframe.query.answering import advice as with_rules
from profframe.query.selection import check_compat

if TYPE_CHECKING:
    import polars as pl

    from profframe.facts.models import Devices
    from profframe.query.header import Answer
    from profframe.query.rules import Paths


class Questions(ABC):
    """Answers by name; `docs/answers.md` has the columns of each.

    Examples
    --------
    >>> Questions.self_times.__doc__
    'Where the time went, by name and kind.'
    """

    __slots__ = ()

    @abstractmethod
    def answer(self, answer: str | PathLike[str] | Answer, /, **parameters: object) -> pl.DataFrame:
        """Run an answer of the catalogue."""

    @abstractmethod
    def with_devices(self, devices: Devices) -> Questions:
        """Match the devices anew."""

    def advice(self, rules: Paths = (), **parameters: object) -> pl.DataFrame:
        """What makes the program slow or waste memory, the events that show it, and what to do.

        Parameters
        ----------
        rules
            Files and folders of rules beside those of profframe; `profframe.query.rules` has their
            form.
        **parameters
            Thresholds of rules, as ``data_loading_share=0.1``; `docs/rules.md` has them.

        Returns
        -------
        polars.DataFrame
            One row per finding, the most severe first; `docs/answers.md` has its columns.

        Raises
        ------
        ParameterError
            No rule has such a parameter, or the value is of another type.
        AnswerError
            A rule cannot be read or run; the message names its file.
        """
        return self.answer(with_rules(rules), **parameters)

    def self_times(self) -> pl.DataFrame:
        """Where the time went, by name and kind."""
        return self.answer("self_times")

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        compat: str | None = None,
    ) -> pl.DataFrame:
        """Times, memory and flops by operator, grouped as torch's ``key_averages`` groups.

        Parameters
        ----------
        group_by_input_shape, group_by_stack_n, group_by_overload_name
            What else makes rows of their own: input shapes, the first n frames of the stack,
            overloads.
        compat
            ``"torch"``: exactly torch's rows, which tell no kinds apart but user annotations.

        Returns
        -------
        polars.DataFrame
            One row per key, in order of first occurrence; `docs/answers.md` has its columns.

        Raises
        ------
        ParameterError
            A value cannot be used.
        """
        check_compat(compat)
        return self.answer(
            "key_averages",
            group_by_input_shape=group_by_input_shape,
            group_by_stack_n=group_by_stack_n,
            group_by_overload_name=group_by_overload_name,
            compat=compat,
        )

    def total_average(self) -> pl.DataFrame:
        """All of `key_averages` in one row per (run, rank)."""
        return self.answer("total_average")

    def kernels(self, by: str = "name", top: int = 0, copies: bool = False) -> pl.DataFrame:
        """Device time by kernel name, and the op that each kernel works for most.

        Parameters
        ----------
        by
            ``"name"``, ``"short_name"`` (no return type, template arguments and parameters) or
            ``"class"`` (compute, communication, copy).
        top
            Keep the largest so many of each rank, and one row ``others`` for the rest; 0: all.
        copies
            Copies and fills of memory, too.
        """
        return self.answer("kernels", by=by, top=top, copies=copies)

    def samples(
        self, per: str = "run", kernel_by: str = "name", copies: bool = False
    ) -> pl.DataFrame:
        """Calls, time and work of every op, kernel and annotation, run by run or step by step.

        Parameters
        ----------
        per
            ``"run"``, or ``"step"``: each profiler step, and nothing that is in none.
        kernel_by
            ``"name"``, ``"short_name"``, or ``"shapes"``: the op around the launch with its shapes.
        copies
            Copies and fills of memory, too.
        """
        return self.answer("samples", per=per, kernel_by=kernel_by, copies=copies)

    def kernel_overlap(self, per: str = "rank") -> pl.DataFrame:
        """How much of the communication was hidden under computation.

        Parameters
        ----------
        per
            What has a row: ``"rank"``, ``"process_group"`` or ``"collective"`` (every kernel).
        """
        return self.answer("kernel_overlap", per=per)

    def collectives(
        self, per: str = "collective", mismatched: bool = False, corrected: bool = False
    ) -> pl.DataFrame:
        """Collectives matched across the ranks of each run: waits, latency, bandwidth, mismatches.

        Parameters
        ----------
        per
            ``"collective"``, or ``"rank"``: a row for each rank of each.
        mismatched
            Only those in which ranks differ, or one is missing.
        corrected
            Take the offsets of `clock_skew` off the clocks.
        """
        return self.answer("collectives", per=per, mismatched=mismatched, corrected=corrected)

    def collective_summary(self, corrected: bool = False) -> pl.DataFrame:
        """How fast collectives are, by group, what they do, data type and size."""
        return self.answer("collective_summary", corrected=corrected)

    def collective_traffic(self) -> pl.DataFrame:
        """How many bytes each rank sends to each other one by all_to_all and send."""
        return self.answer("collective_traffic")

    def clock_skew(self, skewed_ns: int = 50_000) -> pl.DataFrame:
        """Whether ranks are on one clock, and by how much their clocks differ.

        Parameters
        ----------
        skewed_ns
            Offsets beyond this, in ns, and beyond three times their error are noted as skewed.
        """
        return self.answer("clock_skew", skewed_ns=skewed_ns)

    def stragglers(self, per: str = "rank", corrected: bool = False) -> pl.DataFrame:
        """Which rank the others wait for, how often, for how long, and what it did before.

        Parameters
        ----------
        per
            ``"rank"``, or ``"op"`` or ``"kernel"``: a row for each thing that a rank did before.
        corrected
            Take the offsets of `clock_skew` off the clocks.
        """
        return self.answer("stragglers", per=per, corrected=corrected)

    def rank_balance(self) -> pl.DataFrame:
        """How evenly each class of time is spread over ranks, as a whole and in each step."""
        return self.answer("rank_balance")

    def annotations(self) -> pl.DataFrame:
        """What ran on the host and the devices for each user annotation, step by step."""
        return self.answer("annotations")

    def modules(self) -> pl.DataFrame:
        """What ran on the host and the devices for each nn.Module, step by step."""
        return self.answer("modules")

    def kernel_types(self) -> pl.DataFrame:
        """How long the devices computed, communicated and copied, alone and at once."""
        return self.answer("kernel_types")

    def time_breakdown(self) -> pl.DataFrame:
        """What the devices did with their time, as a whole (NULL step) and in each step."""
        return self.answer("time_breakdown")

    def exposed_communication(self) -> pl.DataFrame:
        """When the devices communicated and none of them computed."""
        return self.answer("exposed_communication")

    def work_rates(self) -> pl.DataFrame:
        """How fast each device worked over time: FLOP and bytes per second."""
        return self.answer("work_rates")

    def roofline(
        self, by: str = "kernel", dtype: str | None = None, devices: Devices | None = None
    ) -> pl.DataFrame:
        """How close the devices' work came to what they can do, and the time that was lost.

        Parameters
        ----------
        by
            What has a row: ``"kernel"`` (its name), ``"op"``, ``"shapes"`` (op and input shapes)
            or ``"dtype"``.
        dtype
            Hold all work against the peak of this data type, as ``"tf32"``, in place of its own.
        devices
            Models of devices beside and before the known ones, as `profframe.load` takes them.
        """
        trace = self if devices is None else self.with_devices(devices)
        return trace.answer("roofline", by=by, dtype=dtype)

    def launches(
        self, outlier_call_ns: int = 50_000, outlier_delay_ns: int = 100_000
    ) -> pl.DataFrame:
        """What the calls that launch work cost the host, and how long their work waited.

        Parameters
        ----------
        outlier_call_ns, outlier_delay_ns
            Longer calls and delays, in ns, are counted as outliers.
        """
        return self.answer(
            "launches", outlier_call_ns=outlier_call_ns, outlier_delay_ns=outlier_delay_ns
        )

    def op_kernels(self, group_by_input_shape: bool = False, copies: bool = False) -> pl.DataFrame:
        """Which op launched which kernels, one after the other, how often and with what delays.

        Parameters
        ----------
        group_by_input_shape
            Ops with other input shapes have rows of their own.
        copies
            Copies and fills of memory, too.
        """
        return self.answer("op_kernels", group_by_input_shape=group_by_input_shape, copies=copies)

    def sequences(
        self, name: str = "", min_kernels: int = 3, top: int = 10, copies: bool = False
    ) -> pl.DataFrame:
        """Which kernels run one after the other under an op, annotation or module, how often.

        Parameters
        ----------
        name
            Text in the name of the outermost slices to look under; empty: all of them.
        min_kernels
            Leave out shorter sequences.
        top
            The most frequent so many of each rank; 0: all.
        copies
            Copies and fills of memory, too.
        """
        return self.answer("sequences", name=name, min_kernels=min_kernels, top=top, copies=copies)

    def idle(self, per: str = "stream", kernel_wait_ns: int = 30_000) -> pl.DataFrame:
        """How long each stream had nothing to do, by cause.

        Parameters
        ----------
        per
            ``"stream"``, or ``"device"``: gaps in which no stream of the device works.
        kernel_wait_ns
            Gaps of this and more are no kernel_wait.
        """
        return self.answer("idle", per=per, kernel_wait_ns=kernel_wait_ns)

    def gaps(
        self, top: int = 20, per: str = "device", kernel_wait_ns: int = 30_000
    ) -> pl.DataFrame:
        """The longest gaps of the devices, why, and what the host did meanwhile.

        Parameters
        ----------
        top
            Number of gaps of each run and rank; each takes time.
        per
            ``"device"``: gaps in which no stream of a device works; or ``"stream"``.
        kernel_wait_ns
            Gaps of this and more are no kernel_wait.
        """
        return self.answer("gaps", top=top, per=per, kernel_wait_ns=kernel_wait_ns)

    def queue_depth(self, points: int = 0) -> pl.DataFrame:
        """How much work was waiting for each stream; at most ``points`` rows a stream (0: all)."""
        return self.answer("queue_depth", points=points)

    def queue_summary(self, full_depth: int = 1024) -> pl.DataFrame:
        """How full the queue of each stream was, every depth weighted by its time.

        Parameters
        ----------
        full_depth
            Depth from which a queue counts as full, so that a launch blocks.
        """
        return self.answer("queue_summary", full_depth=full_depth)

    def evaluation(self) -> pl.DataFrame:
        """How long each host slice took itself, and whether the devices had work meanwhile."""
        return self.answer("evaluation")

    def optimizable_events(self, n: int = 1) -> pl.DataFrame:
        """The `n` host slices of each rank most worth a look where its devices ran out of work."""
        return self.answer("optimizable_events", n=n)

    def steps(self) -> pl.DataFrame:
        """When each profiler step ran."""
        return self.answer("steps")

    def step_times(self) -> pl.DataFrame:
        """How long each profiler step took, and what the devices did in it."""
        return self.answer("step_times")

    def runs(self, per_step: int = 0) -> pl.DataFrame:
        """How long each run and its steps took, what its devices did, and its peak of memory.

        Parameters
        ----------
        per_step
            Tokens, samples or whatever a step works through on all ranks together, for the
            throughput; 0: not known.
        """
        return self.answer("runs", per_step=per_step)

    def flame(self, top: int = 5000, min_share: float = 0.0) -> pl.DataFrame:
        """The call tree of the host, merged by path, for a flame graph: host and device time.

        Parameters
        ----------
        top
            Keep the widest so many nodes of each rank; what else is inside a node is one row
            ``others``; 0: all.
        min_share
            Do not keep nodes of a smaller share of both host and device time.
        """
        return self.answer("flame", top=top, min_share=min_share)

    def memory_peak(self) -> pl.DataFrame:
        """When the most memory was allocated on each device, by which op, and what stayed."""
        return self.answer("memory_peak")

    def memory_owners(self) -> pl.DataFrame:
        """Who had asked for what was allocated when the most was, on each device."""
        return self.answer("memory_owners")

    def memory_timeline(self, points: int = 1000) -> pl.DataFrame:
        """Allocated and reserved memory over time, at most ``points`` rows a device (0: all)."""
        return self.answer("memory_timeline", points=points)

    def unfreed(self, top: int = 100) -> pl.DataFrame:
        """The ``top`` largest blocks (0: all) of each (run, rank) that were never freed."""
        return self.answer("unfreed", top=top)

    def memory_bandwidth(self, by: str = "direction") -> pl.DataFrame:
        """How fast memory was copied and filled, by ``"direction"`` or whole ``"name"``."""
        return self.answer("memory_bandwidth", by=by)

    def counter_series(self, name: str = "") -> pl.DataFrame:
        """Every counter over time, or those with ``name`` in their name."""
        return self.answer("counter_series", name=name)

    def counter_summary(self, name: str = "") -> pl.DataFrame:
        """Range and time-weighted mean of every counter, or of those with ``name`` in it."""
        return self.answer("counter_summary", name=name)

    def overview(self) -> pl.DataFrame:
        """What is in each (run, rank)."""
        return self.answer("overview")
