"""From rows of a source to the tables of the schema."""
