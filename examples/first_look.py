# %% [markdown]
# # A first look
#
# You have profiled a training run and have a file. Where did the time go?
#
# `profframe.load` takes the file as the profiler wrote it. A trace shows what is in it: how many
# events of which kind, which steps, and what was wrong with the file, if anything.

# %%
import profframe

trace = profframe.load("examples/cpu_training.json.gz")
trace

# %% [markdown]
# ## Where did the time go?
#
# *Self time* is the time in an event but in nothing inside it. So it adds up: all self times of a
# thread together are the time in which that thread did anything that was recorded.

# %%
trace.self_times().head(10)

# %% [markdown]
# The largest self time is not that of a matrix product. `aten::bernoulli_` draws the random numbers
# of dropout, and takes a fifth of all the time: this model is small, and its dropout is not.
#
# Every answer is a [polars](https://pola.rs) DataFrame of exact numbers, in nanoseconds and bytes.
# The display is for reading: units, shares as bars, the exact number when you point at a cell, and
# the meaning of a column when you point at its heading. Empty columns are left out, and the last
# line names them.

# %%
slow = trace.self_times().filter(name="aten::bernoulli_")
slow["self_ns"].item()

# %% [markdown]
# ## Are all steps alike?

# %%
trace.step_times()

# %% [markdown]
# The three steps take about the same time. Often the first step does not, because it warms up; then
# `trace.filter(steps=[2, 3])` is a trace of the other steps that answers the same questions.
#
# ## Which part of a step?
#
# The program names its parts with `record_function`, and the optimizer names itself.

# %%
trace.filter(steps=2).annotations()

# %% [markdown]
# Forward is the longer half here, which is unusual: dropout runs only in forward. What is inside
# it, level by level?

# %%
trace.tree(event_id=8, depth=2, top=20)

# %% [markdown]
# ## Anything else
#
# `profframe.answers()` lists all answers. And you can query every table in SQL.

# %%
trace.sql("""
    SELECT step, name, count(*) AS calls, sum(self_ns) AS self_ns
    FROM events
    WHERE name IN ('aten::bernoulli_', 'aten::mm', 'aten::addmm')
    GROUP BY ALL
    ORDER BY ALL
""")

# %% [markdown]
# **What to do about it.** Measure such a small model without dropout: `model.eval()` or a dropout
# of 0 shows within a minute what it costs. In larger models it costs next to nothing, because
# matrix products grow faster than the tensors that dropout works on.
