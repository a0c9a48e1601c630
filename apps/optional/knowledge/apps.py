from parley.registry import ParleyApp


class KnowledgeConfig(ParleyApp):
    verbose_name = "Knowledge"
    knowledge_search = "finding.search"
    work_lists = ["indexing.SOURCES"]
