"""Stack frames that reveal the purpose of an allocation."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import pyarrow as pa

from profframe.facts.arrays import is_kind, numbers, present, words
from profframe.intervals import Mask, nearest

_MAKERS: Final = (
    "__init__", "_apply", "to", "to_empty", "cuda", "half", "float", "double", "bfloat16",
    "reset_parameters", "load_state_dict", "_load_from_state_dict",
)  # fmt: skip
_FRAME: Final = re.compile(r"(?P<file>.*)\(\d+\): (?P<name>.*)", re.DOTALL)
"""Name of a slice that is a Python frame."""
_MODULES: Final = re.compile(r"(?:^|/)torch/nn/(?:modules/\w+|parameter)\.py\Z")
_OPTIMIZERS: Final = re.compile(r"(?:^|/)torch/(?:distributed/)?optim/\w+\.py\Z")
_LOADERS: Final = re.compile(r"(?:^|/)torch/utils/data/")
_LOADING: Final = "enumerate(DataLoader)"


@dataclass(frozen=True, slots=True)
class StackPlaces:
    """Whether each row is inside torch code that shows what its memory is for."""

    module: Mask
    """A call of an ``nn.Module``."""
    maker: Mask
    """Code that makes or moves the parameters of one."""
    optimizer: Mask
    """A step of an optimizer."""
    loader: Mask
    """A ``DataLoader``."""

    def of(self, rows: np.ndarray) -> StackPlaces:
        """Select rows; -1 is in none."""
        none = np.zeros(1, np.bool_)
        return StackPlaces(*(np.append(getattr(self, f.name), none)[rows] for f in fields(self)))

    def __or__(self, other: StackPlaces) -> StackPlaces:
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return StackPlaces(*(left | right for left, right in pairs))


def places_of_stacks(stacks: pa.Table) -> StackPlaces:
    """Places of each stack, by its number."""
    ids = numbers(stacks, "stack_id")
    count = int(ids.max(initial=-1)) + 1
    name, names = words(stacks, "name")
    file, files = words(stacks, "file")
    paths = [text.replace("\\", "/") for text in files]
    by_file = _Files(paths)
    of_file = [np.array([*values, False])[file] for values in by_file.masks]
    calls = np.array([*(text in {"_call_impl", "_wrapped_call_impl"} for text in names), False])
    makers = np.array([*(text in _MAKERS for text in names), False])[name]
    steps = np.array([*(_is_step(text) for text in names), False])[name]

    def any_of(mask: Mask) -> Mask:
        masks = np.zeros(count, np.bool_)
        masks[ids[mask]] = True
        return masks

    in_module, in_optimizer, in_loader = of_file
    # Parameters are made outside of calls of a module; inside one, .to() converts activations.
    module = any_of(in_module & calls[name])
    return StackPlaces(
        module,
        any_of(in_module & makers) & ~module,
        any_of(in_optimizer & steps),
        any_of(in_loader),
    )


class _Files:
    """Masks of files that are torch's modules, optimizers and loaders."""

    def __init__(self, paths: list[str]) -> None:
        patterns = (_MODULES, _OPTIMIZERS, _LOADERS)
        self.masks = [[pattern.search(path) is not None for path in paths] for pattern in patterns]


def _is_step(name: str) -> bool:
    return (
        name == "step"
        or name.endswith(("_group", "_step"))
        or name.startswith(("_single_tensor", "_multi_tensor", "_fused"))
    )


def places_of_events(events: pa.Table) -> StackPlaces:
    """Places of each slice, by the Python frames and annotations around it and itself."""
    name, texts = words(events, "name")
    matches = [_FRAME.fullmatch(text) for text in texts]
    paths = ["" if m is None else m["file"].replace("\\", "/") for m in matches]
    names = ["" if m is None else m["name"] for m in matches]
    in_module, in_optimizer, in_loader = _Files(paths).masks
    parent = numbers(events, "parent_id", missing=-1)
    is_frame = is_kind(events, ("python",))

    def around(of_text: list[bool], others: Mask | None = None) -> Mask:
        marked = np.array([*of_text, False])[name] & is_frame
        if others is not None:
            marked |= others
        return nearest(parent, marked) >= 0 if marked.any() else marked

    module = around([False] * len(texts), is_frame & present(events, "python_module_id"))
    loads = np.array([*(text.startswith(_LOADING) for text in texts), False])[name]
    return StackPlaces(
        module,
        around([a and b in _MAKERS for a, b in zip(in_module, names, strict=True)]) & ~module,
        around([a and _is_step(b) for a, b in zip(in_optimizer, names, strict=True)]),
        around(in_loader, loads & is_kind(events, ("annotation", "host_op"))),
    )
