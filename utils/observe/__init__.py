"""What devices did: devices, times, timelines, utilization, memory, and pictures of them."""
