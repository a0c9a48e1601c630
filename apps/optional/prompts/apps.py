from parley.registry import ParleyApp


class PromptsConfig(ParleyApp):
    links = {"web:prompts": ("Prompts", "copy")}
    prompt_library = "library.OFFERED"
    personal_data = ["documents.personal_data"]
