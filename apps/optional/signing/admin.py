"""What operators see of an artifact's signature."""

from typing import Any

from django.contrib import admin
from django.contrib.admin import display
from django.utils.html import format_html
from django.utils.safestring import SafeString

from apps.operators.actions import admin_of
from apps.optional.signing.models import Verdict
from apps.optional.signing.signatures import examine
from apps.record.models import Artifact
from parley.faces import cells
from parley.faces.cells import Tone

ArtifactAdmin: Any = admin_of(Artifact)
SIGNATURE_TONES = {Verdict.GOOD: Tone.DONE, Verdict.MISSING: Tone.STOPPED, Verdict.PENDING: Tone.QUEUED}


@admin.register(Artifact)
class SignedAdmin(ArtifactAdmin):
    fields = (*ArtifactAdmin.fields, "signed")

    @display(description="signature")
    def signed(self, artifact: Artifact) -> SafeString:
        """Verified now."""
        found = examine(artifact)
        verdict = found.verdict
        state = cells.state(verdict, SIGNATURE_TONES.get(verdict, Tone.FAILED))
        if verdict != Verdict.GOOD:
            return state
        return format_html("{} {}, {}", state, found.claims["agent"], found.claims["created"])
