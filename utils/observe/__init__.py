"""What devices did: devices, times, timelines, utilisation, memory, and pictures of them."""
