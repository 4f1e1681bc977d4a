"""What a person can say to the chat itself: slash commands, ours and their own. Entry: `Command`, `Commands`."""
