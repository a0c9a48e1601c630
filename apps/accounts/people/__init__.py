"""How people sign in and come in: limits, second factors, links, letters and invitations."""
