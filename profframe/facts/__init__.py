"""Facts: columns that vectorised functions derive from other columns of a trace."""
