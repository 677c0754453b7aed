"""The main job of an installation: traces, the first screen, every answer, two sides, a store.

Run by the Python that has profframe, from any folder, with the folder of the examples::

    python scripts/main_job.py examples

Prints versions of Python, profframe and what it depends on as one line of JSON.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Final

import profframe

LEAST_ANSWERS: Final = 30
PAIR: Final = ("fp32.json.gz", "bf16.json.gz")


def output(*words: str) -> str:
    """What the command line prints for the words."""
    command = [sys.executable, "-m", "profframe", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"profframe {' '.join(words)}: {done.stderr}")
    return done.stdout


def answered(trace: profframe.Trace) -> int:
    """How many answers there are; each is asked, of a trace that may have no rows for some."""
    names = profframe.answers().filter(kind="answer")["name"].to_list()
    return sum(getattr(trace, name)().width > 0 for name in names)


def store_is_equal(trace: profframe.Trace, folder: Path) -> bool:
    """Whether a store of a trace has the trace's own numbers."""
    trace.to_parquet(folder)
    return profframe.load(folder).self_times().equals(trace.self_times())


def dependencies() -> dict[str, str]:
    """Versions of what the core needs."""
    names = [line.split(";") for line in metadata.requires("profframe") or ()]
    own = [name[0] for name in names if "extra ==" not in name[-1]]
    bare = [name.partition(">")[0].partition("<")[0].strip() for name in own]
    return {name: metadata.version(name) for name in bare}


def main() -> None:
    """Do all of it, or say what fails."""
    examples = Path(sys.argv[1])
    trace = profframe.load(examples / "gpu_training.json.gz")
    if "Device time" not in output(str(examples / "gpu_training.json.gz"), "--no-cache"):
        sys.exit("the first screen has no device time")
    if (count := answered(trace)) < LEAST_ANSWERS:
        sys.exit(f"{count} answers ran")
    base, other = (profframe.load(examples / name) for name in PAIR)
    if not profframe.diff(base, other).height or not profframe.explain(base, other).causes.height:
        sys.exit("nothing differs between the two sides")
    with tempfile.TemporaryDirectory() as name:
        if not store_is_equal(trace, Path(name, "store")):
            sys.exit("a store has other numbers than its trace")
    versions = {"python": platform.python_version(), "profframe": profframe.__version__}
    print(json.dumps(versions | dependencies()))


if __name__ == "__main__":
    main()
