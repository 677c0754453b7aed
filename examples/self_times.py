# %% [markdown]
# # Self times and shapes
#
# You know the name of the slowest op. But which of its calls is slow? An op is called on large and
# small tensors, from many places; a name alone does not say what to change.

# %%
import profframe

trace = profframe.load("examples/cpu_training.json.gz")

# %% [markdown]
# ## By shape
#
# `key_averages` groups like torch's function of that name, and takes the same options. This profile
# was recorded with `record_shapes=True`.

# %%
shapes = trace.key_averages(group_by_input_shape=True).sort("self_cpu_ns", descending=True)
shapes.select("name", "input_dims", "calls", "self_cpu_ns", "cpu_ns", "torch_flops").head(10)

# %% [markdown]
# Dropout comes in three sizes, and the one over 16 x 32 x 256 numbers costs most: it is inside the
# feed-forward part, which is four times as wide as the rest of the model.
#
# ## What does one call cost?
#
# SQL or polars computes what no answer has. Column names that end in `_ns` or `_share` are shown
# with their unit here, too.

# %%
import polars as pl

costs = trace.sql("""
    SELECT name, input_dims, calls, self_ns, self_ns / calls AS mean_ns
    FROM (
        SELECT name, input_dims, count(*) AS calls, sum(self_ns) AS self_ns
        FROM events
        WHERE name IN ('aten::bernoulli_', 'aten::mul') AND input_dims IS NOT NULL
        GROUP BY ALL
    )
    ORDER BY self_ns DESC
    LIMIT 6
""")
costs.with_columns(self_share=pl.col("self_ns") / pl.col("self_ns").sum())

# %% [markdown]
# ## By where it is called
#
# This profile was recorded with `with_stack=True`, so each op has the Python functions around it in
# the column `python_stack`, innermost first. The first one that is part of the model:

# %%
stacked = profframe.load("examples/cpu_training_stack.json.gz")
stacked.sql(r"""
    SELECT
        name,
        regexp_extract(python_stack, 'nn\.Module: (\w+)', 1) AS module,
        regexp_extract(python_stack, 'torch/nn/[^;]+') AS caller,
        count(*) AS calls,
        sum(self_ns) AS self_ns
    FROM events
    WHERE kind = 'host_op' AND contains(python_stack, 'nn.Module')
    GROUP BY ALL
    ORDER BY self_ns DESC
    LIMIT 8
""")

# %% [markdown]
# ## By module
#
# Authors of models think in modules. `host_ns` is all time inside a module's calls, `self_host_ns`
# the part outside the modules inside it.

# %%
stacked.modules().sort("self_host_ns", descending=True).head(10)

# %% [markdown]
# **What to do about it.** Do the same work in fewer calls (`foreach` and fused optimizers,
# `torch.compile`), or on smaller shapes. `torch_flops`, if an op has it, tells whether a call is
# slow because it does much, or although it does little.
