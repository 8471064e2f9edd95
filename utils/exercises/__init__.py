"""What checks a learner's code in their own kernel: `check`, the facts that it asks, the lessons' tasks."""
