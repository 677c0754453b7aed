"""Which nodes of two call forests are the same call: arrays of nodes in, pairs of them out."""
