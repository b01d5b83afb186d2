"""Starting, watching and stopping the engine and the edge."""
