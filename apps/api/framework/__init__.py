"""How every endpoint is written: Django REST framework, as this API uses it."""
