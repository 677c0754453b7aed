"""Pages: reports, timelines, charts and flame graphs, drawn from data that others gather."""
