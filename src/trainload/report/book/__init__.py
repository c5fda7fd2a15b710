"""The reference book as pages and tables."""
