"""Studies: factors, levels and repetitions, each cell realised by runs."""
