"""How questions are asked: which rows are selected, where they are, and the SQL that answers."""
