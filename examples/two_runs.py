# %% [markdown]
# # Two runs compared
#
# The same model, trained in float32 and in bfloat16. It should be faster now. Is it, and why is it
# not twice as fast?

# %%
import profframe

fp32 = profframe.load("examples/fp32.json.gz")
bf16 = profframe.load("examples/bf16.json.gz")

# %% [markdown]
# ## What changed?
#
# `diff` compares ops, kernels and annotations by name. Per step, there are eight samples on each
# side, so it can tell a change from the noise between steps, and says for each row whether it is
# one (`significant`).

# %%
changes = profframe.diff(fp32, bf16, ("fp32", "bf16"), per="step")
columns = ["name", "base_ns", "other_ns", "change_ns", "ratio", "significant"]
changes.filter(what="annotation").select(columns)

# %% [markdown]
# A step takes less than four fifths of the time. Forward is twice as fast; backward is not faster
# beyond noise. Which ops changed?

# %%
changes.filter(what="op").select(*columns, "contribution").head(8)

# %% [markdown]
# Matrix products (`aten::mm`, `aten::addmm`) take about a quarter of their former time. But the
# backward of attention takes *five times* as long: on this processor it has no good code for
# bfloat16, and it loses two thirds of what the products gained. The average hid this.
#
# ## What is new, and what is gone?

# %%
changes.filter(changes["status"].is_in(["added", "removed"])).select("status", *columns)

# %% [markdown]
# Conversions between the types are new, and cost next to nothing.
#
# ## Could it be noise?
#
# The confidence interval of each change, for the rows that differ by more than noise:

# %%
certain = changes.filter("significant", what="op").head(5)
certain.select("name", "change_ns", "change_low_ns", "change_high_ns", "p_value", "q_value")

# %% [markdown]
# **What to do about it.** Keep attention in float32 (`torch.autocast(enabled=False)` around it):
# the products keep their gains. In a build, `profframe diff BASE OTHER --fail-on 5%` ends with exit
# code 3 if something got slower by more than that.
