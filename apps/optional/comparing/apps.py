"""One message to several answerers, side by side."""

from parley.registry import ParleyApp


class ComparingConfig(ParleyApp):
    verbose_name = "Comparisons"
    links = {"web:comparisons": ("Comparisons", "branch")}
    composer_tools = ["parts.compare"]
    message_acts = ["parts.compare_with"]
    agent_figures = ["parts.preferred_by_people"]
    personal_data = ["counting.personal_data"]
    periodic_jobs = {"comparisons.of_deleted_workspaces": ("KEEP_HOUSE_SECONDS", "comparing.sweep")}
