from parley.asgi import application as application
