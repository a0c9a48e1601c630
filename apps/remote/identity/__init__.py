"""Who signed what a remote agent delivered: identities (`did:web`) and signatures on artifacts."""
