"""Predictions as text."""
