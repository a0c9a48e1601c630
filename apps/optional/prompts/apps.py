from parley.registry import ParleyApp


class PromptsConfig(ParleyApp):
    links = {"web:prompts": ("Prompts", "copy")}
    prompt_library = "library.OFFERED"
    periodic_jobs = {"prompts.of_deleted_workspaces": ("KEEP_HOUSE_SECONDS", "library.sweep")}
    personal_data = ["documents.personal_data"]
