"""Questions as plain code: each asks for what is missing, and an answer may say more than was asked."""
