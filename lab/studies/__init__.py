"""Studies: a table and a chart from many points, such as shares, thresholds, sizes, systems or configurations."""
