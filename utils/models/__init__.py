"""Models that several lessons and labs use."""
