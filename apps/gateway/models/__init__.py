"""What is known of remote agents besides what the registry says of every agent."""
