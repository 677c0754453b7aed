"""From what a source says to the tables of the schema."""
