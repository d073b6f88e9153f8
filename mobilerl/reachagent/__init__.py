"""ReachAgent: page graphs of explored apps, with tasks, rewards and preference pairs on them."""
