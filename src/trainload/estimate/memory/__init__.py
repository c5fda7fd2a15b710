"""Peak memory of a step from its op trace: allocator, resident memory, verdict."""
