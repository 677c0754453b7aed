"""CUDA and HIP graphs: replayed work gets the ops of the calls that were captured."""
