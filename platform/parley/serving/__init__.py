"""What answers requests: the handler of async views, middleware, health checks, static files and the server itself."""
