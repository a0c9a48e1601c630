from parley.registry import ParleyApp


class ApiConfig(ParleyApp):
    url_prefix = "api/v1/"
