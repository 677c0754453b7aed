"""Processes of rocprofv3, and their agents: CPUs and GPUs, numbered together."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

import polars as pl
import pyarrow as pa

from profframe.readers.build.row_tables import Batch, RowTable, conform
from profframe.schema import TEXT

_GPU: Final = "GPU"
_FRAME_BUFFERS: Final = (1, 2)
"""Types of a GPU's own memory, seen by the host or not."""
_MOST: Final = 1 << 62
RANK_SOURCE: Final = "environment"
_RANKS: Final = {
    "RANK": "WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK": "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK": "PMI_SIZE",
    "MV2_COMM_WORLD_RANK": "MV2_COMM_WORLD_SIZE",
    "SLURM_PROCID": "SLURM_STEP_NUM_TASKS",
}
"""Variables in which launchers tell a process its rank, and the number of ranks: torchrun first."""


def rank_of(environment: Mapping[str, Any]) -> tuple[int, int] | None:
    """Rank and number of ranks of a process, from its environment; None if it is alone.

    Examples
    --------
    >>> rank_of({"RANK": "3", "WORLD_SIZE": "8"}), rank_of({"RANK": "3"})
    ((3, 8), None)
    """
    for rank, ranks in _RANKS.items():
        texts = environment.get(rank), environment.get(ranks)
        if all(type(t) is str and re.fullmatch("[0-9]{1,9}", t) for t in texts):
            own, size = int(str(texts[0])), int(str(texts[1]))
            return (own, size) if own < size > 1 else None
    return None


@dataclass(frozen=True, slots=True)
class Agent:
    """A CPU or GPU of the machine: ``number`` counts both, as in the names of lines.

    ``details`` has what the source says about it, by the words of rocprofiler's agents.
    """

    number: int | None
    type_: str | None
    details: Mapping[str, Any]

    @property
    def word(self) -> str | None:
        """What arguments of slices call it."""
        return None if self.number is None else f"Agent-{self.number}"


@dataclass(slots=True)
class Process:
    """One process of a source, and what its rows refer to.

    ``by_queue`` says that its work has no streams: lines are queues.
    """

    pid: str | None
    os_pid: int | None = None
    command: str | None = None
    agents: dict[int, Agent] = field(default_factory=dict)
    by_queue: bool = False
    threads: set[int] = field(default_factory=set)
    """All threads that the source names."""
    tids: set[int] = field(default_factory=set)
    """Threads with slices."""

    @property
    def thread_numbers(self) -> dict[int, int]:
        """Threads as rocprofv3 counts them: the main one is 0."""
        others = sorted(self.threads - {self.os_pid})
        return {tid: number for number, tid in enumerate(others, 1)} | (
            {} if self.os_pid is None else {self.os_pid: 0}
        )

    def agents_frame(self) -> pl.DataFrame:
        """Agents by the numbers that rows refer to them with."""
        rows = [(key, agent.number, agent.type_, agent.word) for key, agent in self.agents.items()]
        return pl.DataFrame(
            rows,
            {"key": pl.UInt64, "number": pl.Int64, "type": pl.String, "word": pl.String},
            orient="row",
        )

    def labels(self) -> Batch:
        """Names of the process and its threads with slices."""
        rows: list[tuple[str, str | None, str]] = []
        if self.command:
            rows.append(("process_name", None, self.command))
        numbers = self.thread_numbers
        for tid in sorted(self.tids):
            number = numbers.get(tid)
            name = f"THREAD {number}" if number else self._main() if number == 0 else None
            if name:
                rows.append(("thread_name", str(tid), name))
        if not rows:
            return {}
        columns = {
            "name": pa.array([name for name, _, _ in rows], TEXT),
            "pid": pa.array([self.pid] * len(rows), TEXT),
            "tid": pa.array([tid for _, tid, _ in rows], TEXT),
            "args": pa.array([json.dumps({"name": text}) for _, _, text in rows], TEXT),
        }
        return {RowTable.THREADS: conform(RowTable.THREADS, columns)}

    def _main(self) -> str | None:
        return PurePosixPath(self.command).name if self.command else None


def pids_of(owners: Sequence[tuple[object, int | None]]) -> list[str | None]:
    """Process ids as text, which are apart even where a number occurs twice.

    Parameters
    ----------
    owners
        For each process its machine and its number.

    Examples
    --------
    >>> pids_of([("a", 7), ("a", 8)]), pids_of([("a", 7), ("b", 7)]), pids_of([("a", 7)] * 2)
    (['7', '8'], ['1:7', '2:7'], ['1:7', '1:7 (2)'])
    """
    numbers = Counter(number for _, number in owners)
    machines = {machine: nth for nth, machine in enumerate(dict.fromkeys(m for m, _ in owners), 1)}
    used: Counter[str] = Counter()
    pids: list[str | None] = []
    for machine, number in owners:
        text = "" if number is None else str(number)
        if numbers[number] > 1:
            text = f"{machines[machine]}:{text}"
        used[text] += 1
        pids.append((f"{text} ({used[text]})" if used[text] > 1 else text) or None)
    return pids


def agent_of(row: Mapping[str, Any], type_: str | None) -> Agent:
    """An agent by the members that rocprofiler writes for it."""
    keys = ("logical_node_id", "node_id")
    number = next((value for key in keys if _is_index(value := row.get(key))), None)
    return Agent(number, type_, row)


def device_properties(processes: Iterable[Process]) -> list[dict[str, Any]]:
    """GPUs of all processes by Kineto's names of properties, each once."""
    devices: dict[int, dict[str, Any]] = {}
    for process in processes:
        for agent in process.agents.values():
            if agent.type_ == _GPU and agent.number is not None:
                devices.setdefault(agent.number, _properties(agent))
    return [devices[number] for number in sorted(devices)]


def _properties(agent: Agent) -> dict[str, Any]:
    own = agent.details
    names = (own.get(key) for key in ("product_name", "model_name", "name"))
    name = next((text for text in names if isinstance(text, str) and text), None)
    properties: dict[str, Any] = {"id": agent.number, "name": name}
    version = own.get("gfx_target_version")
    if _is_index(version) and version:
        properties |= {"computeMajor": version // 10_000, "computeMinor": version // 100 % 100}
    banks = own.get("mem_banks")
    if isinstance(banks, list):
        sizes = [
            bank.get("size_in_bytes")
            for bank in banks
            if isinstance(bank, dict) and bank.get("heap_type") in _FRAME_BUFFERS
        ]
        properties["totalGlobalMem"] = sum(size for size in sizes if _is_size(size))
    for key, word in _KINETO.items():
        if _is_index(own.get(key)):
            properties[word] = own[key]
    for key in ("name", "vendor_name", "model_name"):
        if isinstance(own.get(key), str) and own[key]:
            properties["gcnArchName" if key == "name" else key] = own[key]
    return {
        key: value for key, value in properties.items() if value not in {None, 0} or key == "id"
    }


_KINETO: Final = {
    "cu_count": "numSms",
    "wave_front_size": "warpSize",
    "workgroup_max_size": "maxThreadsPerBlock",
}


def _is_index(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 31


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value < _MOST
