from django.urls import URLPattern

app_name = "a2a"
urlpatterns: list[URLPattern] = []
