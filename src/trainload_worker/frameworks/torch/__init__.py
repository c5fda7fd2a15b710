"""torch: layer graphs, and the watching of programs that were written without us."""
