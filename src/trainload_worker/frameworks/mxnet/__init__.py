"""MXNet with Gluon."""
