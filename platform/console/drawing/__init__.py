"""What pictures drawn on the server share: the layout of graphs, the axis of time, and pictures as files.

Plans draw their steps with it, and pages draw tasks and what led to an artifact.
"""
