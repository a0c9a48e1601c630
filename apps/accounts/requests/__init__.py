"""How a request, or a socket, is let in: who asks, how much is left of their quota, and when its body is received."""
