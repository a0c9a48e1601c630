"""What is to be built: files, each with what it is for, and perhaps a question that only the person can answer."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field, StringConstraints, field_validator

MOST_FILES = 6

# Names below the project's folder: nothing absolute, nothing hidden, and no way up.
SEGMENT = r"[A-Za-z0-9_-][A-Za-z0-9_.-]*"
FileName = Annotated[str, StringConstraints(pattern=rf"^{SEGMENT}(/{SEGMENT}){{0,3}}$", max_length=100)]


class PlannedFile(BaseModel):
    """One file. `question`, if there is one, is put to the person before the file is written."""

    name: FileName
    purpose: str = Field(min_length=1, max_length=500)
    question: str = Field("", max_length=200)


class Plan(BaseModel):
    """Files that make a project."""

    files: list[PlannedFile] = Field(min_length=1, max_length=MOST_FILES)

    @field_validator("files")
    @classmethod
    def _each_once(cls, files: list[PlannedFile]) -> list[PlannedFile]:
        names = [file.name for file in files]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"each file once, but {', '.join(sorted(twice))} is there twice")
        return files

    @property
    def names(self) -> list[str]:
        """The files' names, in order."""
        return [file.name for file in self.files]


class Assignment(PlannedFile):
    """A file to be written: what the whole is about, and what other files there will be."""

    brief: str = Field(min_length=1)
    files: list[FileName] = Field(default_factory=list, max_length=MOST_FILES)
