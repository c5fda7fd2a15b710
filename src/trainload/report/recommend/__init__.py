"""Recommendations as text and as a page."""
