"""A framework that trains nothing and misbehaves on request, for tests."""
