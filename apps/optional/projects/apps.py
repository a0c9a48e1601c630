from parley.registry import ParleyApp


class ProjectsConfig(ParleyApp):
    verbose_name = "Projects"
    links = {"web:projects": ("Projects", "folder")}
    session_project = "projects.session_project"
    visible_projects = "projects.visible_projects"
    turn_briefings = {"project": "projects.BRIEFING"}
    account_erasers = ["forgetting.forget_person"]
    personal_data = ["forgetting.personal_data"]
    storage_meters = ["files.stored_size"]
    periodic_jobs = {"projects.of_deleted_workspaces": ("KEEP_HOUSE_SECONDS", "forgetting.sweep")}
    sidebar_sections = ["places.sidebar_section"]
    session_trails = ["places.session_trail"]
    session_acts = ["places.session_act"]
