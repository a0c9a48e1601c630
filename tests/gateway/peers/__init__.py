"""Other people's A2A servers, as real processes, that all hold the same agent: `sdk_server.Cast` says what it does."""
