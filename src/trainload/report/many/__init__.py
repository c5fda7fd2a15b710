"""Many runs, or a study, as one page: overview, filters, tables, overlaid curves."""
