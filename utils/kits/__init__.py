"""What one lab brings along for its learners, and no other needs."""
