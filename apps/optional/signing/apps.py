from parley.registry import ParleyApp


class SigningConfig(ParleyApp):
    artifact_signers = ["signatures.sign_artifacts"]
    signature_verdicts = ["signatures.foreign_verdicts"]
    artifact_notes = ["pages.note_of"]
    remote_completion_listeners = ["remote.note_signatures"]
    before_erasure = ["signatures.erase_foreign"]
    work_lists = ["remote.SIGNATURES"]
