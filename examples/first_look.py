# %% [markdown]
# # A first look
#
# A training run was profiled, and there is a file. Where did the time go?
#
# `profframe.load` takes the file as the profiler wrote it. Shown by itself, a trace says what is in
# it: how many events of which kind, which steps, and what was wrong with the file, if anything.

# %%
import profframe

trace = profframe.load("examples/cpu_training.json.gz")
trace

# %% [markdown]
# ## Where did the time go?
#
# *Self time* is the time in an event and in nothing inside it. So it adds up: all self times of a
# thread together are the time in which that thread did anything that was recorded.

# %%
trace.self_times().head(10)

# %% [markdown]
# The largest is not a matrix product. `aten::bernoulli_` draws the random numbers of dropout, and
# takes a fifth of all the time: this model is small, and its dropout is not.
#
# Every answer is a [polars](https://pola.rs) DataFrame of exact numbers, in nanoseconds and bytes.
# What is shown is for reading: units, shares as bars, the exact number when the mouse is on a cell,
# and what a column means when it is on a heading. Columns that say nothing are left out, and the
# last line tells which.

# %%
slow = trace.self_times().filter(name="aten::bernoulli_")
slow["self_ns"].item()

# %% [markdown]
# ## Are all steps alike?

# %%
trace.step_times()

# %% [markdown]
# The three steps take about the same time. Often the first does not, because it warms up; then
# `trace.filter(steps=[2, 3])` is a trace of the others, to ask the same questions of.
#
# ## Which part of a step?
#
# The program has named its parts with `record_function`, and the optimizer names itself.

# %%
trace.filter(steps=2).annotations()

# %% [markdown]
# Forward is the longer half here, and that is not usual: dropout is in forward alone. What is
# inside of it, level by level?

# %%
trace.tree(event_id=8, depth=2, row_limit=20)

# %% [markdown]
# ## Anything else
#
# `profframe.answers()` lists all that can be asked. And every table can be asked in SQL.

# %%
trace.sql("""
    SELECT step, name, count(*) AS calls, sum(self_ns) AS self_ns
    FROM events
    WHERE name IN ('aten::bernoulli_', 'aten::mm', 'aten::addmm')
    GROUP BY ALL
    ORDER BY ALL
""")

# %% [markdown]
# **What to do about it.** Dropout of a model that small is better measured without:
# `model.eval()` or a dropout of 0 tells within a minute what it costs. In larger models it is
# next to nothing, because matrix products grow faster than the tensors that dropout goes over.
