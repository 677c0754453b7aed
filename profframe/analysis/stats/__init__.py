"""Whether a difference is more than noise."""
