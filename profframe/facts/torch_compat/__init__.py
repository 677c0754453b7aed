"""What torch computes in a way of its own."""
