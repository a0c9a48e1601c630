"""The AG-UI protocol, by which frontends such as CopilotKit talk with agents."""
