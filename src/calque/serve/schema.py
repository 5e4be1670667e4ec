"""What requests and answers look like, for the OpenAPI page."""

from typing import Any, Literal

from pydantic import BaseModel, Field


class TranslateBody(BaseModel):
    """A request to `/translate`."""

    q: str | list[str] = Field(description="the text, or a list of texts", examples=["A dog runs."])
    source: str = Field(description="the code of its language", examples=["en"])
    target: str = Field(description="the code of the language to translate into", examples=["de"])
    format: Literal["text", "html"] = Field("text", description="html: tags stay as they are")
    alternatives: int = Field(0, ge=0, description="further translations of each text")
    api_key: str = Field("", description="where the server asks for one")


class Translated(BaseModel):
    """The answer of `/translate`; lists where `q` is a list."""

    translatedText: str | list[str]
    alternatives: list[str] | list[list[str]] | None = Field(None, description="where they were asked for")


class FileBody(BaseModel):
    """A request to `/translate_file`."""

    file: bytes = Field(description="the file; the ending of its name says of which kind it is")
    source: str = Field(description="the code of its language", examples=["en"])
    target: str = Field(description="the code of the language to translate into", examples=["de"])
    api_key: str = Field("", description="where the server asks for one")


class TranslatedFile(BaseModel):
    """The answer of `/translate_file`."""

    translatedFileUrl: str


class Language(BaseModel):
    """A language of `/languages`."""

    code: str
    name: str
    targets: list[str]


class Health(BaseModel):
    """The answer of `/health`."""

    status: str


class Fault(BaseModel):
    """The answer to a request that is refused."""

    error: str


_TYPES = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
TRANSLATE: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {kind: {"schema": TranslateBody.model_json_schema()} for kind in _TYPES},
    }
}
TRANSLATE_FILE: dict[str, Any] = {
    "requestBody": {"required": True, "content": {_TYPES[-1]: {"schema": FileBody.model_json_schema()}}}
}
_REASONS = {
    400: "a field is missing or wrong, or a limit is exceeded",
    403: "the API key is missing or wrong",
    408: "the body did not come in time",
    413: "the body is too large",
    415: "the body is of another type",
    429: "too many requests, or the queue is full; `Retry-After` says when to try again",
    503: "the run cannot be opened now",
}
FAULTS: dict[int | str, dict[str, Any]] = {
    status: {"model": Fault, "description": reason} for status, reason in _REASONS.items()
}
