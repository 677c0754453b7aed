"""Output for people: terminal tables, notebook HTML, plain text, all made from frames."""
