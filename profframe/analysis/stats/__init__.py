"""Statistics: is a difference more than noise."""
