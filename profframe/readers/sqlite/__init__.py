"""Databases of nvprof and Nsight Systems."""
