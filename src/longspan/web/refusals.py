"""Requests that cannot be served, as JSON that says why: {"error": "..."}."""

from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException


class Refusal(Exception):
    """What a client asked cannot be done.

    Args:
        status: of HTTP.
        message: what is wrong, and what would be right; a user reads it.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def refusal_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """A refusal as an answer."""
    return JSONResponse({"error": message}, status, headers)


def answer_refusals(app: FastAPI) -> None:
    """Makes JSON of every error that an application answers with."""

    async def refused(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, Refusal)
        return refusal_response(error.status, error.message)

    async def misdirected(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        return refusal_response(error.status_code, str(error.detail), error.headers)

    async def malformed(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        # The first item says where it was found: in the body, the query or the path.
        field = ".".join(map(str, first["loc"][1:])) or "the request"
        return refusal_response(422, f"{field}: {first['msg']}")

    async def failed(request: Request, error: Exception) -> JSONResponse:
        return refusal_response(500, "the server made a mistake; its terminal says more")

    app.add_exception_handler(Refusal, refused)
    app.add_exception_handler(HTTPException, misdirected)
    app.add_exception_handler(RequestValidationError, malformed)
    app.add_exception_handler(Exception, failed)
