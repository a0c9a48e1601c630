from parley.registry import ParleyApp


class MemoryConfig(ParleyApp):
    verbose_name = "Memory"
    turn_briefings = {"user_memory": "telling.BRIEFING"}
    agent_parts = ["pages.agent_part"]
    session_trails = ["pages.session_trail"]
    beginning_tools = ["pages.beginning_tool"]
    turn_tools = ["tools.tools_for"]
    personal_data = ["remembering.personal_data"]
    periodic_jobs = {"memory.delete_forgotten": ("KEEP_HOUSE_SECONDS", "remembering.sweep")}
