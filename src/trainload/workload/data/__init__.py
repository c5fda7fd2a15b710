"""What a workload is trained on: described and checked, read by the worker."""
