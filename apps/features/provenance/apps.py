from django.apps import AppConfig


class ProvenanceConfig(AppConfig):
    name = "apps.features.provenance"
    verbose_name = "Provenance"
