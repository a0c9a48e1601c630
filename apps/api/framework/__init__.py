"""The base of all endpoints, on Django REST framework."""
