# %% [markdown]
# # What is in memory at the peak
#
# Training ends with "out of memory", or a larger batch would be nice. What takes the memory, at the
# moment that counts?
#
# The trace is synthetic (`examples/synthetic_gpu.py` made it up); a real one is taken with
# `profile_memory=True`.

# %%
import profframe

trace = profframe.load("examples/gpu_training.json.gz")

# %% [markdown]
# ## When is the peak?

# %%
trace.memory_peak()

# %%
trace.plot.memory()

# %% [markdown]
# The same saw in each step: forward keeps what backward needs, backward gives it back. The peak is
# at the beginning of backward, and it is a narrow one.
#
# ## Who had asked for what is there then?

# %%
trace.memory_owners()

# %% [markdown]
# The weights and the optimizer's moments were there before the trace began (no op has asked for
# them). Of all else, nearly everything is the logits, a row of 32,000 numbers for each token: in
# bfloat16 (`aten::mm`), as a copy in float32 (`aten::_to_copy`), as log-probabilities
# (`aten::_log_softmax`), and the gradients of these.
#
# ## Step by step
#
# Every allocation is a row of the table `memory`, with the op that asked for it.

# %%
trace.sql("""
    SELECT events.name AS op, memory.time_ns, memory.bytes, memory.total_allocated_bytes
    FROM memory
    JOIN events ON memory.op_id = events.event_id
    WHERE abs(memory.bytes) > 200e6 AND events.step = 2
    ORDER BY memory.time_ns
""")

# %% [markdown]
# **What to do about it.** The float32 copy is needed for a moment only, and no row of logits needs
# any other: computing the loss over a few thousand tokens at a time (or with a fused linear and
# cross-entropy) takes more than a gigabyte off the peak, and the model does not change. Smaller
# batches would have taken off less.
