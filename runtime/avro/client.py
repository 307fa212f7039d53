"""A client of a schema registry: reads schemas by id, once in a process, and registers new ones."""

from __future__ import annotations

import base64
import json
import random
import ssl
import time
from collections.abc import Mapping
from functools import cache
from http.client import HTTPException
from typing import Any, NoReturn
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from aggloom.errors import SchemaRegistryError
from aggloom.runtime.avro.schemas import NotASchema
from aggloom.runtime.avro.settings import SchemaRegistry, check_files

_TYPE = "application/vnd.schemaregistry.v1+json"
_UNKNOWN = (40401, 40402, 40403)
"""The codes of a subject, a version and a schema that a registry does not have."""
_RETRIED = (408, 425, 429, 500, 502, 503, 504)
_MAX_BYTES = 16 << 20
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 5.0
_MAX_TEXT = 200
# An unknown id is requested again after some seconds: not for each message of a topic full of it, but soon enough after
# somebody registers its schema.
_UNKNOWN_SECONDS, _MAX_UNKNOWN = 5.0, 10_000


class UnknownSchemaError(LookupError):
    """Raised for an id that the registry does not have."""


class IncompatibleSchemaError(ValueError):
    """Raised for a schema that the registry refuses for a subject; the text is its reason."""


class _TemporaryError(Exception):
    """Raised for a failure that may be over at the next attempt."""


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirect: the password is for this host."""

    def redirect_request(self, *_: Any) -> None:
        return None


@cache
def client_of(registry: SchemaRegistry) -> Client:
    """The one client of a registry in this process."""
    return Client(registry)


class Client:
    """Sends requests to a registry; the schema of an id never changes, so it is requested once."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self.registry = registry
        self._opener: OpenerDirector | None = None
        # One counter for all requests: the next request does not begin with the URL that failed last.
        self._first = 0
        self._unknown: dict[int, float] = {}
        self._registered: dict[tuple[str, str], int] = {}
        self._schemas: dict[int, tuple[str, tuple[str, ...]]] = {}
        self._versions: dict[tuple[str, int], tuple[str, tuple[str, ...]]] = {}

    def schema(self, number: int) -> tuple[str, tuple[str, ...]]:
        """The schema of an id as text, and the schemas that it references.

        Raises UnknownSchemaError, NotASchema for one that is not Avro's, and SchemaRegistryError.
        """
        if number not in self._schemas:
            if self._unknown.get(number, 0) > time.monotonic():
                raise UnknownSchemaError(number)
            try:
                answer = self._ask(f"/schemas/ids/{number}", unknown=True)
            except UnknownSchemaError:
                # Cleared as a whole: memory stays bounded, at the cost of one more request for each of them.
                if len(self._unknown) >= _MAX_UNKNOWN:
                    self._unknown.clear()
                self._unknown[number] = time.monotonic() + _UNKNOWN_SECONDS
                raise
            self._schemas[number] = self._resolve(answer, f"schema {number}")
        return self._schemas[number]

    def register(self, subject: str, schema: Mapping[str, Any]) -> int:
        """Register a schema under a subject, and return its id.

        Raises IncompatibleSchemaError and SchemaRegistryError.
        """
        # The text is the key: columns have a fixed order, so that equal schemas are equal texts.
        text = json.dumps(schema)
        if (subject, text) not in self._registered:
            body = json.dumps({"schema": text}).encode()
            number = self._ask(f"/subjects/{quote(subject, safe='')}/versions", body).get("id")
            if type(number) is not int:
                self._fail(self.registry.urls[0], "its answer to a schema has no id")
            self._registered[subject, text] = number
        return self._registered[subject, text]

    def newest(self, subject: str) -> tuple[str, tuple[str, ...]] | None:
        """The newest schema of a subject as text, and the schemas that it references; None without such a subject.

        Raises NotASchema for one that is not Avro's, and SchemaRegistryError.
        """
        path = f"/subjects/{quote(subject, safe='')}/versions/latest"
        try:
            answer = self._ask(path, unknown=True)
        except UnknownSchemaError:
            return None
        return self._resolve(answer, f"the newest version of {subject}")

    def find_conflict(self, subject: str, schema: Mapping[str, Any]) -> str | None:
        """Return the registry's reason for refusing a schema for a subject; None if it would accept it.

        Nothing is registered. Raises SchemaRegistryError.
        """
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest?verbose=true"
        body = json.dumps({"schema": json.dumps(schema)}).encode()
        try:
            answer = self._ask(path, body, unknown=True)
        except UnknownSchemaError:
            return None
        except IncompatibleSchemaError as error:
            return str(error)
        if answer.get("is_compatible") is not False:
            return None
        return _line("; ".join(map(str, answer.get("messages") or ())) or "it is not compatible")

    def _resolve(self, answer: Mapping[str, Any], what: str) -> tuple[str, tuple[str, ...]]:
        """The schema of an answer, and all schemas that it references, each before those that reference it."""
        kind = answer.get("schemaType") or "AVRO"
        text = answer.get("schema")
        if kind != "AVRO":
            raise NotASchema(f"{what} is {str(kind)[:20]}, not Avro")
        if not isinstance(text, str):
            self._fail(self.registry.urls[0], f"its answer has no {what}; is the URL right?")
        referenced: list[str] = []
        for subject, version in self._references(answer):
            own, before = self._version(subject, version)
            # In this order a parser meets no name that it does not know.
            referenced += [one for one in (*before, own) if one not in referenced]
        return text, tuple(referenced)

    def _references(self, answer: Mapping[str, Any]) -> list[tuple[str, int]]:
        try:
            listed = answer.get("references") or ()
            return [(str(each["subject"]), int(each["version"])) for each in listed]
        except (TypeError, KeyError, ValueError):
            return self._fail(self.registry.urls[0], "its answer has references that name nothing")

    def _version(self, subject: str, version: int) -> tuple[str, tuple[str, ...]]:
        if (subject, version) not in self._versions:
            answer = self._ask(f"/subjects/{quote(subject, safe='')}/versions/{version}")
            what = f"version {version} of {subject}"
            self._versions[subject, version] = self._resolve(answer, what)
        return self._versions[subject, version]

    def _ask(
        self, path: str, body: bytes | None = None, unknown: bool = False
    ) -> Mapping[str, Any]:
        """Return the registry's answer; raises SchemaRegistryError after all attempts at every URL have failed.

        unknown: raise UnknownSchemaError for the codes of a missing subject, version or schema.
        """
        urls = self.registry.urls
        wait, reason = _FIRST_WAIT, ""
        for attempt in range(self.registry.attempts):
            if attempt:
                # A random part of the wait: workers that failed together do not all retry at one time.
                time.sleep(wait * random.uniform(0.5, 1))
                wait = min(2 * wait, _LONGEST_WAIT)
            for _ in urls:
                url = urls[self._first % len(urls)]
                try:
                    return self._answer(url, path, body, unknown)
                except _TemporaryError as failure:
                    reason = str(failure)
                    # The next request begins with another URL.
                    self._first += 1
        tries = f"{self.registry.attempts} tries"
        why = f"{reason}, {tries}; see that it runs, and that workers reach it"
        return self._fail(str(self.registry), why)

    def _answer(self, url: str, path: str, body: bytes | None, unknown: bool) -> Mapping[str, Any]:
        headers = {"Accept": f"{_TYPE}, application/json", **self._credentials()}
        if body is not None:
            headers["Content-Type"] = _TYPE
        if self._opener is None:
            self._opener = self._make_opener()
        try:
            request = Request(url + path, body, headers)
            with self._opener.open(request, timeout=self.registry.timeout) as answer:
                # Bounded: an endless answer would fill the memory of the worker.
                return self._parse_answer(url, answer.read(_MAX_BYTES))
        except HTTPError as error:
            self._raise_refusal(url, error, unknown, body is not None)
        except (OSError, HTTPException) as error:
            reason = error.reason if isinstance(error, URLError) else error
            if isinstance(reason, ssl.SSLCertVerificationError):
                why = f"its certificate is not trusted ({reason.verify_message}); give the CA's as ca_file"
                self._fail(url, why)
            text = "no answer in time" if isinstance(reason, TimeoutError) else _line(reason)
            raise _TemporaryError(f"cannot be reached ({text})") from None
        except ValueError as error:
            # Such as an invalid host name.
            self._fail(url, f"cannot be asked ({_line(error)})")

    def _raise_refusal(self, url: str, error: HTTPError, unknown: bool, writes: bool) -> NoReturn:
        """Raise the exception for an answer with an HTTP error."""
        try:
            answer = json.loads(error.read(_MAX_BYTES))
        except (ValueError, OSError, HTTPException):
            answer = None
        answer = answer if isinstance(answer, dict) else {}
        code, message = answer.get("error_code"), _line(answer.get("message") or error.reason)
        if error.code in _RETRIED:
            raise _TemporaryError(f"answers {error.code} ({message})") from None
        if unknown and code in _UNKNOWN:
            raise UnknownSchemaError(message) from None
        # 409 is an incompatible schema, 422 an invalid one.
        if writes and error.code in (409, 422):
            raise IncompatibleSchemaError(message) from None
        if error.code in (401, 403):
            self._fail(
                url,
                f"answers {error.code} ({message}); give user_info or token, and see what they may read",
            )
        # Not followed, since the password would go to another host.
        if 300 <= error.code < 400:
            self._fail(url, f"sends on to another place ({error.code}); give that as url")
        self._fail(url, f"answers {error.code} ({message}); is the URL right, path and all?")

    def _parse_answer(self, url: str, text: bytes) -> Mapping[str, Any]:
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self._fail(url, "answers with what is no JSON object; is the URL right, path and all?")
        return answer

    def _credentials(self) -> dict[str, str]:
        if self.registry.user_info is not None:
            pair = base64.b64encode(self.registry.user_info.encode()).decode()
            return {"Authorization": f"Basic {pair}"}
        if self.registry.token is not None:
            return {"Authorization": f"Bearer {self.registry.token}"}
        return {}

    def _make_opener(self) -> OpenerDirector:
        """Return the opener of URLs, with the trusted certificates and the client's own."""
        check_files(self.registry)
        own = self.registry.certificate_file
        try:
            context = ssl.create_default_context(cafile=self.registry.ca_file)
            if own is not None:
                context.load_cert_chain(own, password=self.registry.certificate_password or "")
        except ssl.SSLError as error:
            files = " and ".join(filter(None, (self.registry.ca_file, own)))
            self._fail(str(self.registry), f"{files} cannot be read as PEM ({_line(error.reason)})")
        return build_opener(_NoRedirects, HTTPSHandler(context=context))

    def _fail(self, url: str, why: str) -> NoReturn:
        raise SchemaRegistryError(f"schema registry {url}: {why}") from None


def _line(message: Any) -> str:
    """Return a foreign text in one line, cut."""
    return " ".join(str(message).split())[:_MAX_TEXT]
