"""When a few steps are traced, and how that is kept; the tracers stand with their frameworks."""
