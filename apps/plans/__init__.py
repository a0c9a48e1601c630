"""Plans: graphs of tasks over agents.

`runs` starts, pauses and repeats runs. `jobs` marks steps and schedules ticks. `transitions` decides under the run's
lock; `engine` carries the decision out after the commit. `person` is the agent for people's steps. A version stores
schemas as text, because PostgreSQL would reorder their fields.
"""
