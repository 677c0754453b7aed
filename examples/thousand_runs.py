# %% [markdown]
# # A thousand runs
#
# A job runs every night and leaves a trace each time. Is it slower than before? Since when, and
# why?
#
# Convert many traces once into a store of Parquet files, and ask them all together from then on:

# %%
import tempfile

import profframe

store = tempfile.mkdtemp()
files = profframe.convert(["examples/fp32.json.gz", "examples/bf16.json.gz"], store, workers=1)
files.select("run", "status", "events", "bytes")

# %%
profframe.load(store)

# %% [markdown]
# The thousand nights on this page are synthetic (`examples/made_up_runs.py`): each is one step of a
# real trace, with the times of every op a few percent longer or shorter. A change is hidden among
# them.

# %%
from examples.made_up_runs import nights

NIGHTS = 1000
trace = nights(NIGHTS)
trace

# %% [markdown]
# ## One row per run

# %%
trace.runs().select("run", "start_ns", "span_ns", "step_p50_ns", "op_self_ns").head(5)

# %% [markdown]
# ## Is it slower?
#
# Nights differ by a few percent, so you cannot see a change of one percent by eye. `trend` finds
# from which run on a metric has a new *level*, and requires so much evidence that it reports a
# change in only one of a hundred cases in which nothing changed.

# %%
trace.plot.trend("op_self_ns")

# %%
changes = trace.trend(["op_self_ns", "op:*"]).filter("is_change")
changes.select("metric", "run", "level", "ratio", "p_value")

# %% [markdown]
# One op changed, and `trend` names the run from which on it takes longer. Look for that change in
# the history of the code.
#
# ## Why?
#
# Compared with the nights before, with all ops and kernels tested at once:

# %%
first = NIGHTS * 7 // 10
before = [f"night-{night:04}" for night in range(first - 20, first)]
after = [f"night-{night:04}" for night in range(first, first + 20)]
found = trace.regressions(before, after)
found.select("what", "name", "base_ns", "other_ns", "ratio", "change_low_ns", "change_high_ns")

# %% [markdown]
# ## Which nights are unlike the rest?

# %%
unlike = trace.outliers(ops=2)
unlike.select("run", "metric", "value", "typical", "score", "name", "excess_ns").head(6)

# %% [markdown]
# In the first of them everything took longer by about the same factor: another job was on the
# machine. It is an outlier, not a regression: the night after was like the one before.

# %% [markdown]
# **What to do about it.** `profframe check store --baseline 10 --fail-on 5%` compares the latest
# run with the ten before it, and ends with exit code 3 if something got slower by more than 5 %,
# and by more than it varies. A build that calls it needs nobody to watch a dashboard.
