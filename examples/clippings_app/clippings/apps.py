from parley.registry import ParleyApp


class ClippingsConfig(ParleyApp):
    tool_modules = ["tools"]
    channel_types = ["ntfy.NTFY"]
    links = {"web:clippings": ("Clippings", "file")}
