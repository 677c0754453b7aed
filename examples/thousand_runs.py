# %% [markdown]
# # A thousand runs
#
# A job runs every night, and every night leaves a trace. Is it slower than it was? Since when, and
# because of what?
#
# Many traces are converted once, into a store of Parquet files, and asked together from then on:

# %%
import tempfile

import profframe

store = tempfile.mkdtemp()
files = profframe.convert(["examples/fp32.json.gz", "examples/bf16.json.gz"], store, workers=1)
files.select("run", "status", "events", "bytes")

# %%
profframe.load(store)

# %% [markdown]
# For this page a thousand nights are made up (`examples/made_up_runs.py`): one step of a real trace
# each, with the times of every op a few percent longer or shorter. A change is hidden among them.

# %%
from examples.made_up_runs import nights

NIGHTS = 1000
trace = nights(NIGHTS)
trace

# %% [markdown]
# ## One row a run

# %%
trace.runs().select("run", "start_ns", "span_ns", "step_p50_ns", "op_self_ns").head(5)

# %% [markdown]
# ## Is it slower?
#
# A night is a few percent faster or slower than another, and a change of one percent is not to be
# seen by eye. `trend` finds from which run on a metric has another *level*, and asks for so much
# evidence that where nothing changed it finds something in one of a hundred cases.

# %%
trace.plot.trend("op_self_ns")

# %%
changes = trace.trend(["op_self_ns", "op:*"]).filter("is_change")
changes.select("metric", "run", "level", "ratio", "p_value")

# %% [markdown]
# One op changed, and the run is named from which on it takes longer. That is the change to look at
# in the history of the code.
#
# ## Because of what?
#
# Held against the nights before, with all ops and kernels tested at once:

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
# In the first of them everything took longer, by about the same part: another job was on the
# machine. It is an outlier, and no regression: the night after was as the one before.

# %% [markdown]
# **What to do about it.** `profframe check store --baseline 10 --fail-on 5%` holds the latest run
# against the ten before it, and ends with exit code 3 where something got slower by more than that,
# and by more than it varies. A build that calls it needs no eye on a dashboard.
