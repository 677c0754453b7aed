"""Alignment of two call forests: arrays of nodes in, pairs of equal calls out."""
