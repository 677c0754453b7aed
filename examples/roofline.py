# %% [markdown]
# # How close to the hardware
#
# The GPU is busy. Is it busy with anything that it is good at? A kernel can be as fast as the
# arithmetic allows, or as fast as memory allows, whichever is less: that is the roofline.
#
# The trace is synthetic (`examples/synthetic_gpu.py` made it up); a real one is taken with
# `record_shapes=True`, because work is computed from the shapes.

# %%
import profframe

trace = profframe.load("examples/gpu_training.json.gz")
trace.devices

# %% [markdown]
# ## Achieved, and possible
#
# `flops` and `bytes` are what an op has at least to compute and to move; its kernels' time tells
# how fast that was. `lost_ns` is the time beyond what the limit that binds it (`bound`) asks for.

# %%
rows = trace.roofline(by="op").sort("lost_ns", descending=True, nulls_last=True)
rows.select("name", "total_ns", "bound", "flop_share", "bandwidth_share", "lost_ns").head(10)

# %%
trace.plot.roofline()

# %% [markdown]
# Matrix products reach three fifths of the peak, which is what good ones do. All the little ops of
# the optimizer are far to the left: a few FLOP for every byte, so memory decides, and they use it
# well. No faster kernel helps them.
#
# ## How much is there to win?
#
# They move the same numbers six times a step, because each op is a kernel of its own.

# %%
trace.sql("""
    SELECT
        CASE WHEN annotation.name LIKE 'Optimizer.step%' THEN 'optimizer' ELSE 'model' END AS part,
        count(*) AS kernels,
        sum(kernel.dur_ns) AS total_ns,
        sum(kernel.bytes) AS moved_bytes,
        1e9 * sum(kernel.bytes) / sum(kernel.dur_ns) AS bytes_per_s
    FROM events AS kernel
    JOIN events AS launch ON kernel.launch_id = launch.event_id
    LEFT JOIN events AS annotation
        ON annotation.kind = 'annotation' AND annotation.name LIKE 'Optimizer.step%'
        AND launch.start_ns BETWEEN annotation.start_ns AND annotation.start_ns + annotation.dur_ns
    WHERE kernel.kind = 'kernel'
    GROUP BY ALL
    ORDER BY part
""")

# %% [markdown]
# **What to do about it.** Let one kernel do the six little things (`AdamW(fused=True)`): each
# number is then read and written once, and the time goes down with the bytes. For the model itself,
# look at what memory binds and at `lost_ns`: that is where `torch.compile` or a fused kernel helps.
