"""When a few steps are traced, and how what was traced is kept; the tracers stand with frameworks."""
