"""How people sign in, secure their account, and come by invitations."""
