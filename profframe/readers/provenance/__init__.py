"""Files in which Inductor says what each kernel of its generated code was made from.

`reading` reads them; they belong to traces of the process that compiled the code.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """A call of a kernel in generated code.

    Attributes
    ----------
    name : str
        Name of the kernel.
    handle : int or None
        Number of the call; None from releases before 2.9, where all calls of a name are one.
    post_grad, pre_grad : tuple of str, or None
        Nodes that it was made from, in the graph after and before autograd; None if not recorded.
    stacks : tuple of str, or None
        Stacks of the model source of its nodes: frames joined by ``;``, the innermost first.
    """

    name: str
    handle: int | None
    post_grad: tuple[str, ...] | None = None
    pre_grad: tuple[str, ...] | None = None
    stacks: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """A compiled graph.

    Attributes
    ----------
    name : str
        What the files call it.
    key : str or None
        Its key in the cache of compiled graphs, by which a trace names its calls.
    rank : int or None
        Rank of the process that compiled it.
    source : str
        File, or folder of files, that says so.
    kernels : tuple of CompiledKernel
        Calls of kernels in the order of the code; those of one name at least in their own order.
    has_code : bool
        Whether the generated code says which calls these are. Without it those of graphs that were
        compiled before may be among them, as torch does not always forget these.
    """

    name: str
    key: str | None
    rank: int | None
    source: str
    kernels: tuple[CompiledKernel, ...]
    has_code: bool = False
