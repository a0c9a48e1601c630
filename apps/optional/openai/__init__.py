"""The API of OpenAI: https://platform.openai.com/docs/api-reference, for models, chat completions and responses."""
