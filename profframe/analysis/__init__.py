"""What differs between two sides or among many runs, and whether it is more than noise."""
