"""What slices were compiled from, as loops over the JSON of the files and over single slices."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
Answer = tuple[str, str, int | None, str] | None
"""Graph, name and handle of a kernel, and how it was found."""
GENERATED = ("triton_", "cpp_")
DEVICE = ("kernel", "memcpy", "memset")


def parsed(key: str) -> tuple[str, int | None]:
    name, colon, digits = key.rpartition(":")
    return (name, int(digits)) if colon and digits.isdigit() else (key, None)


def kernels_of(graph: Mapping[str, Any]) -> list[tuple[str, int | None]]:
    """The kernels of a graph: those of its code if that is given, else of its files, by handle."""
    if graph["code"]:
        return [parsed(key) for key in graph["code"]]
    keys = [parsed(key) for key in {**graph["mappings"], **graph["stacks"]}]
    return sorted(set(keys), key=lambda key: (-1 if key[1] is None else key[1], key[0]))


def same_name(kernel: str, slice_: str) -> bool:
    """Whether a slice may be a call of a kernel."""
    return bool(_forms(kernel) & _forms(slice_))


def _forms(name: str) -> set[str]:
    if name.startswith("extern_kernels."):
        return {"aten::" + name.removeprefix("extern_kernels.").removeprefix("bias_")}
    if name.startswith("torch.ops."):
        return {"::".join(name.split(".")[2:4])}
    if name.startswith("aoti_torch_cpu_"):
        return {"aten::" + name.removeprefix("aoti_torch_cpu_").removesuffix("_out")}
    return {re.sub(r"^graph_\d+_(?=cpp_)", "", name)}


class Links:
    """Links of the slices of one trace, all by name and by time."""

    def __init__(self, rows: Sequence[Row], graphs: Sequence[Mapping[str, Any]]) -> None:
        self.rows = rows
        self.graphs = graphs
        self.calls = {
            row["event_id"]: match[1]
            for row in rows
            if row["kind"] in {"host_op", "annotation"}
            and row["start_ns"] is not None
            and (match := re.fullmatch(r"## Call CompiledFxGraph (\S+) ##", row["name"] or ""))
        }
        self.graph_of_call: dict[int, tuple[int, str]] = {}
        self.doubtful_calls: set[int] = set()
        self._choose_graphs()

    def _ancestors(self, row: Row) -> list[Row]:
        found = []
        while row["parent_id"] is not None:
            row = self.rows[row["parent_id"]]
            found.append(row)
        return found

    def call_of(self, row: Row) -> int | None:
        """The call around a slice, or around what launched it."""
        if row["kind"] in DEVICE:
            cause = row["launch_id"] if row["launch_id"] is not None else row["op_id"]
            if cause is None:
                return None
            row = self.rows[cause]
            chain = [row, *self._ancestors(row)]
        else:
            chain = [row, *self._ancestors(row)]
        return next((r["event_id"] for r in chain if r["event_id"] in self.calls), None)

    def units(self, names: Sequence[str], call: int | None) -> list[Row]:
        """The outermost slices of some names in a call, in order."""
        found = [row for row in self.rows if self._is(row, names) and self.call_of(row) == call]
        host = [row for row in found if row["kind"] not in DEVICE]
        ids = {row["event_id"] for row in host}
        outer = [r for r in host if not ids & {a["event_id"] for a in self._ancestors(r)}]
        for row in found:
            if row["kind"] not in DEVICE:
                continue
            cause = row["launch_id"] if row["launch_id"] is not None else row["op_id"]
            chain = [] if cause is None else [self.rows[cause], *self._ancestors(self.rows[cause])]
            if not ids & {a["event_id"] for a in chain}:
                outer.append(row)
        return sorted(outer, key=lambda r: (r["start_ns"], _place(r), r["event_id"]))

    def _is(self, row: Row, names: Sequence[str]) -> bool:
        if row["start_ns"] is None or row["event_id"] in self.calls:
            return False
        if row["kind"] not in {"host_op", *DEVICE} or row["name"] is None:
            return False
        return any(same_name(name, row["name"]) for name in names)

    def _choose_graphs(self) -> None:
        generated = {
            name
            for graph in self.graphs
            for name, _ in kernels_of(graph)
            if name.startswith(GENERATED)
        }
        signatures = []
        for graph in self.graphs:
            names = [n for n, _ in kernels_of(graph) if n.startswith(GENERATED)]
            signatures.append(Counter(names))
        chosen: dict[int, int] = {}
        for call, key in self.calls.items():
            owners = [n for n, graph in enumerate(self.graphs) if graph["key"] == key]
            if len(owners) == 1:
                self.graph_of_call[call] = (owners[0], "key")
                continue
            if owners:
                self.doubtful_calls.add(call)
                continue
            run = Counter(
                re.sub(r"^graph_\d+_(?=cpp_)", "", str(row["name"]))
                for row in self.units(sorted(generated), call)
            )
            fitting = [
                n
                for n, signature in enumerate(signatures)
                if self.graphs[n]["key"] is None and run and signature == run
            ]
            if len(fitting) == 1:
                chosen[call] = fitting[0]
            elif fitting:
                self.doubtful_calls.add(call)
        for call, graph_number in chosen.items():
            keys = {self.calls[c] for c, g in chosen.items() if g == graph_number}
            others = {g for c, g in chosen.items() if self.calls[c] == self.calls[call]}
            if len(keys) > 1 or (len(others) > 1 and self.calls[call] != "None"):
                self.doubtful_calls.add(call)
            else:
                self.graph_of_call[call] = (graph_number, "kernels")

    def answers(self) -> tuple[list[Answer], int]:
        """What each slice was compiled from, and the number of doubtful ones."""
        answers: list[Answer] = [None] * len(self.rows)
        doubtful = len(self.doubtful_calls)
        for call, (number, way) in self.graph_of_call.items():
            graph = self.graphs[number]
            kernels = kernels_of(graph)
            units = self.units([name for name, _ in kernels], call)
            for form in {frozenset(_forms(name)) for name, _ in kernels}:
                own = [k for k in kernels if _forms(k[0]) == form]
                same = [u for u in units if _forms(str(u["name"])) == form]
                is_one = len(own) == 1 and own[0][1] is None
                for place, unit in enumerate(same):
                    if not is_one and len(own) != len(same):
                        doubtful += 1
                        continue
                    kernel = own[0] if is_one else own[place]
                    answers[unit["event_id"]] = (graph["name"], *kernel, way)
        everywhere = [(g["name"], *k) for g in self.graphs for k in kernels_of(g)]
        generated = [name for _, name, _ in everywhere if name.startswith(GENERATED)]
        for unit in self.units(generated, None):
            own_kernels = [k for k in everywhere if same_name(k[1], str(unit["name"]))]
            is_lost = unit["kind"] in DEVICE and unit["launch_id"] is unit["op_id"] is None
            if len(own_kernels) == 1 and not (is_lost and self.calls):
                answers[unit["event_id"]] = (*own_kernels[0], "name")
            else:
                doubtful += 1
        self._launched(answers)
        return answers, doubtful

    def _launched(self, answers: list[Answer]) -> None:
        """Work on devices has what the innermost call of a kernel around its launch has."""
        own = [*answers]
        for row in self.rows:
            if row["kind"] not in DEVICE or own[row["event_id"]] is not None:
                continue
            cause = row["launch_id"] if row["launch_id"] is not None else row["op_id"]
            if cause is None:
                continue
            for around in [self.rows[cause], *self._ancestors(self.rows[cause])]:
                if own[around["event_id"]] is not None:
                    answers[row["event_id"]] = own[around["event_id"]]
                    break


def _place(row: Row) -> float:
    return float("inf") if row["preorder"] is None else row["preorder"]
