from parley.registry import ParleyApp


class KnowledgeConfig(ParleyApp):
    verbose_name = "Knowledge"
    links = {"web:collections": ("Knowledge", "file")}
    knowledge_search = "telling.search_for_agent"
    turn_tools = ["telling.tools_for"]
    agent_parts = ["pages.elsewhere.agent_part"]
    project_parts = ["pages.elsewhere.project_part"]
    project_file_listeners = ["forgetting.follow_project"]
    account_erasers = ["forgetting.forget_person"]
    personal_data = ["forgetting.personal_data"]
    storage_meters = ["sources.stored_size"]
    periodic_jobs = {
        "knowledge.of_deleted_workspaces": ("KEEP_HOUSE_SECONDS", "forgetting.sweep"),
        "knowledge.unused_vectors": ("KEEP_HOUSE_SECONDS", "indexing.drop_unused_vectors"),
    }
    work_lists = ["indexing.SOURCES"]
