"""The ``kind`` of every slice, independent of the source's words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import words
from profframe.facts.fact import Note, Output, Tables, columns, fact, listed, of_events
from profframe.intervals import Ints, rows_by_value


@dataclass(frozen=True, slots=True)
class Rule:
    """A slice that matches all three patterns has this kind.

    A pattern is a regular expression for the whole text; None matches anything, even missing text.

    Attributes
    ----------
    kind : str
        One of ``schema.KINDS``.
    category : str, optional
        Pattern for the source's category.
    name : str, optional
        Pattern for the name.
    process : str, optional
        Pattern for the name of the process, or its id if it has no name.

    Examples
    --------
    >>> mine = (Rule("annotation", category="cpu_op", name="my_lib::.*"), *RULES)
    """

    kind: str
    category: str | None = None
    name: str | None = None
    process: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in schema.KINDS:
            raise ValueError(f"{self.kind!r} is not a kind; kinds are {', '.join(schema.KINDS)}")


Classifier: TypeAlias = Sequence[Rule]
"""Rules in order: the first match decides. Slices without a match are ``other``."""

_ASCEND_DEVICE = r"Ascend Hardware.*"
_ASCEND_COLLECTIVES = r"HCCL|Communication"
_ASCEND_SYNC = (
    r"(?i:(notify|event)[_ ](record|wait)|write[_ ]value|((invalidate|writeback) )?data context"
    r"|profil(er|ing)_(enable|disable|trace)).*"
)
_LIST_PROCESS = r"CPU functions"
_REGIONS = r"(ProfilerStep|Optimizer\.\w+|enumerate\(\w+\))#.*"
_GIL = r"(Waiting for|Holding) GIL"
_KERNELS = r"kernel|concurrent_kernel|Kernel"
_ROCM_COPY = r"__amd_(rocclr_)?copy(Buffer|Image).*|MEMORY_COPY_.*"
_ROCM_FILL = r"__amd_(rocclr_)?fill(Buffer|Image).*"
_FRAMES = r".+\.py\(\d+\): .+|<built-in .+|nn\.Module: .+"
_ACCELERATORS = r"(cuda|hip|xpu|mtia|privateuse1|glow)"

RULES: Final[tuple[Rule, ...]] = (
    # PyTorch; capitalised words until 2021.
    Rule("host_op", category=r"cpu_op|Operator"),
    Rule("annotation", category=r"user_annotation"),
    Rule("python", category=r"python_function"),
    Rule("runtime", category=rf"{_ACCELERATORS}_runtime|Runtime"),
    Rule("driver", category=rf"{_ACCELERATORS}_driver"),
    Rule("memcpy", category=r"gpu_memcpy|Memcpy"),
    Rule("memset", category=r"gpu_memset|Memset"),
    Rule("sync", category=rf"{_ACCELERATORS}_(sync|event)"),
    Rule("device_annotation", category=r"gpu_user_annotation|mtia_insight"),
    # A call of oneCCL on the host, around what it launches.
    Rule("annotation", category=r"collective_comm"),
    Rule("graph_node", category=r"graph_(event|host)_node"),
    # MTIA has one category for all work of its queues.
    Rule("sync", category=r"mtia_ccp_events", name=r"event_(record|wait)"),
    Rule("memcpy", category=r"mtia_ccp_events", name=r"dma_request"),
    # ROCm up to 7.1 writes copies and fills by a shader, and some others, as kernels.
    Rule("memcpy", category=_KERNELS, name=_ROCM_COPY),
    Rule("memset", category=_KERNELS, name=_ROCM_FILL),
    Rule("kernel", category=_KERNELS),
    Rule("kernel", category=r"hpu_op|mtia_ccp_events"),
    Rule("overhead", category=r"overhead"),
    Rule("profiler", category=r"Trace"),
    # nvprof and Nsight Systems.
    Rule("host_op", category=r"(NVTX|MARKER)_OP"),
    Rule("host_op", category=r"NVTX|MARKER", name=r"aten::.*"),
    Rule("gil", category=r"NVTX", name=_GIL),
    Rule("annotation", category=r"NVTX|MARKER"),
    Rule("driver", category=r"RUNTIME", name=r"cu[A-Z].*"),
    Rule("runtime", category=r"RUNTIME"),
    Rule("driver", category=r"DRIVER"),
    Rule("kernel", category=r"KERNEL|CONCURRENT_KERNEL|CDP_KERNEL|GRAPH_TRACE"),
    Rule("memcpy", category=r"MEMCPY2?"),
    Rule("memset", category=r"MEMSET"),
    Rule("sync", category=r"SYNCHRONIZATION"),
    Rule("overhead", category=r"OVERHEAD"),
    # rocprofv3.
    Rule("runtime", category=r"(hip|rccl|rocdecode|rocjpeg)_api|memory_allocation"),
    Rule("driver", category=r"hsa_api"),
    Rule("annotation", category=r"marker_api"),
    Rule("memcpy", category=r"kernel_dispatch", name=_ROCM_COPY),
    Rule("memset", category=r"kernel_dispatch", name=_ROCM_FILL),
    Rule("kernel", category=r"kernel_dispatch"),
    Rule("memcpy", category=r"memory_copy"),
    Rule("overhead", category=r"scratch_memory"),
    # Ascend: host queue; slices without a category, told apart by their process.
    Rule("runtime", category=r"enqueue|dequeue"),
    Rule("sync", category=r"", name=_ASCEND_SYNC, process=_ASCEND_DEVICE),
    Rule("memcpy", category=r"", name=r"(?i:memco?py|sdma).*", process=_ASCEND_DEVICE),
    Rule("kernel", category=r"", process=_ASCEND_DEVICE),
    Rule("runtime", category=r"", process=r"CANN"),
    Rule("kernel", category=r"", name=r"hcom_.*", process=_ASCEND_COLLECTIVES),
    Rule("device_annotation", category=r"", process=_ASCEND_COLLECTIVES),
    Rule("profiler", category=r"", process=r"Overlap Analysis"),
    # Lists of torch's own events, without categories; the second process until 2021.
    Rule("annotation", category=r"", name=_REGIONS, process=_LIST_PROCESS),
    Rule("python", category=r"", name=_FRAMES, process=_LIST_PROCESS),
    Rule("runtime", category=r"", name=r"(cuda|hip)[A-Z]\w+", process=_LIST_PROCESS),
    Rule("host_op", category=r"", process=_LIST_PROCESS),
    Rule("memcpy", category=r"", name=rf"Memcpy .*|{_ROCM_COPY}", process=r"CUDA functions"),
    Rule("memset", category=r"", name=rf"Memset .*|{_ROCM_FILL}", process=r"CUDA functions"),
    Rule("kernel", category=r"", process=r"CUDA functions"),
)
"""The default rules."""

_OF_TORCH: Final = ("cpu_op", "kernel", "python_function", "user_annotation")
"""Categories of a trace of torch's profiler; one at least is in each."""
_KINDS: Final = pa.array(schema.KINDS, pa.string())
_OTHERS: Final = ("cuda_profiler_range",)
"""Categories that have no other kind: what the range profiler counted, on a clock of its own."""
_WORDS: Final = re.compile(r"[\w|]*", re.ASCII)

COLLECTIVE_RECORD: Final = "record_param_comms"
"""Name of the op that describes a collective."""
FORWARD_ARROWS: Final = "fwdbwd"
"""Category of the arrows from forward to backward ops."""
GRAPH_DEPENDENCIES: Final = "graph_dependency"
"""Category of the arrows between work in a graph."""
LAUNCH_ARROWS: Final = "async_npu"
"""Category of the arrows from ops to what they launch, in a source without correlations."""
LIST_ARROWS: Final = "cpu_to_"
"""Beginning of the category of such arrows in a list of torch's events; its end is the device."""


@fact(
    inputs=columns(events="category name thread", threads="thread pid process_name"),
    outputs=columns(events="kind"),
    options=("classifier",),
)
def kinds(tables: Tables, classifier: Classifier = RULES) -> Output:
    """Add ``kind``.

    Rules are applied to the distinct combinations of category and process, and to distinct names
    only where a name can matter.
    """
    events = tables["events"]
    categories, category_texts = words(events, "category")
    names, name_texts = words(events, "name")
    processes, process_texts = _processes(tables)
    combination = (categories + 1) * (len(process_texts) + 1) + processes + 1
    codes = np.empty(events.num_rows, np.int8)
    for rows in rows_by_value(combination):
        category = _text(category_texts, categories[rows[0]])
        process = _text(process_texts, processes[rows[0]])
        possible = _possible(classifier, category, process)
        if not possible or possible[0].name is None:
            codes[rows] = _code(possible, None)
            continue
        distinct, place = np.unique(names[rows], return_inverse=True)
        name_codes = [_code(possible, _text(name_texts, name)) for name in distinct]
        codes[rows] = np.array(name_codes, np.int8)[place]
    kind = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), _KINDS)
    return of_events(*_unknown(categories, category_texts, codes, classifier), kind=kind)


def _unknown(
    categories: Ints, texts: Sequence[str], codes: npt.NDArray[np.int8], classifier: Classifier
) -> Iterator[Note]:
    """Slices of categories that no rule knows, in a trace of torch's profiler.

    One's own rules may leave out what they like, and other writers call slices what they like.
    """
    if classifier is not RULES or not {*_OF_TORCH} & {*texts}:
        return
    is_other = (codes == schema.KINDS.index("other")) & (categories >= 0)
    if not is_other.any():
        return
    # There may be texts that no slice has: a reader's dictionary has those of all events.
    own = np.flatnonzero(np.bincount(categories[categories >= 0], minlength=len(texts)))
    if not any(texts[code] in _OF_TORCH for code in own.tolist()):
        return
    of_its_own = [code for code, text in enumerate(texts) if text in _OTHERS or not text]
    rows = np.flatnonzero(is_other & ~np.isin(categories, of_its_own))
    if rows.size:
        names = sorted(texts[code] for code in np.unique(categories[rows]))
        yield "unknown_category", rows.size, listed(names), int(rows[0])


def _possible(classifier: Classifier, category: str | None, process: str | None) -> Sequence[Rule]:
    """Rules that a slice of this category and process may match."""
    if classifier is RULES:
        return _possible_defaults(category, process)
    return [rule for rule in classifier if _matches_all(rule, category, process)]


@lru_cache(1024)
def _possible_defaults(category: str | None, process: str | None) -> tuple[Rule, ...]:
    """`_possible` for the default rules, cached: traces have the same few categories."""
    return tuple(rule for rule in RULES if _matches_all(rule, category, process))


def _matches_all(rule: Rule, category: str | None, process: str | None) -> bool:
    return _matches(rule.category, category) and _matches(rule.process, process)


def _code(possible: Sequence[Rule], name: str | None) -> int:
    kind = next((rule.kind for rule in possible if _matches(rule.name, name)), "other")
    return schema.KINDS.index(kind)


def _matches(pattern: str | None, text: str | None) -> bool:
    """Missing text counts as empty."""
    return pattern is None or bool(_matcher(pattern)(text or ""))


@cache
def _matcher(pattern: str) -> Callable[[str], object]:
    """A test for text; plain words are not compiled, as compiling all takes milliseconds."""
    if _WORDS.fullmatch(pattern):
        return frozenset(pattern.split("|")).__contains__
    return re.compile(pattern, re.DOTALL).fullmatch


def _processes(tables: Tables) -> tuple[Ints, list[str]]:
    """For every slice the code of its process's name, else of its id; -1 if it has neither."""
    threads = (tables["threads"][c].to_pylist() for c in ("thread", "process_name", "pid"))
    process_of_thread = {thread: name or pid for thread, name, pid in zip(*threads, strict=True)}
    texts = sorted({text for text in process_of_thread.values() if text is not None})
    number = {text: i for i, text in enumerate(texts)}
    thread = tables["events"]["thread"].to_numpy()
    size = 1 + max([*process_of_thread, int(thread.max(initial=0))])
    lookup = np.array(
        [number.get(process_of_thread.get(i) or "", -1) for i in range(size)], np.int64
    )
    return lookup[thread], texts


def _text(texts: Sequence[str], code: int) -> str | None:
    return texts[code] if code >= 0 else None
