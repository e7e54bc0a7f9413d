"""Checks recorded calls of Slack's Web API and answers at response URLs with slack_sdk: methods, arguments, blocks,
views, and the limits that its models validate."""

import inspect
import logging

import checker
from slack_sdk.models.basic_objects import JsonObject
from slack_sdk.models.blocks import Block
from slack_sdk.models.messages.chunk import Chunk
from slack_sdk.models.views import View
from slack_sdk.web import WebClient
from slack_sdk.webhook import WebhookClient

# Start of a problem -> the reason why it is accepted.
EXCEPTIONS = {
    "chat.update.unfurl_": "Slack documents it for new messages only and ignores it elsewhere; an edit must show no "
    "preview, whatever Slack makes of it",
    "chat.postEphemeral.unfurl_": "the same for ephemeral messages",
    "response_url.link_names: unknown argument": "an answer at a response URL is a message like any other, and this "
    "keeps Slack from expanding names in its text",
    "response_url.parse: unknown argument": "the same, for addresses and names",
}

# The library logs unknown keys; the comparison below reports them.
logging.disable(logging.CRITICAL)


def arguments(function):
    """Returns the named arguments of a function, and those of them without a default."""
    named = {
        name: parameter
        for name, parameter in inspect.signature(function).parameters.items()
        # Tokens are headers.
        if name not in {"self", "app_token"} and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }
    needed = {name for name, parameter in named.items() if parameter.default is inspect.Parameter.empty}
    return set(named), needed


def lost(ours, theirs, place):
    """Returns what the library does not carry over from a value, which means that it does not know it."""
    if isinstance(theirs, JsonObject):
        theirs = theirs.to_dict()
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found = []
        for name, value in ours.items():
            if name not in theirs:
                found.append(f"{place}.{name}: unknown field")
            else:
                found += lost(value, theirs[name], f"{place}.{name}")
        return found
    if isinstance(ours, list) and isinstance(theirs, (list, tuple)):
        if len(ours) != len(theirs):
            return [f"{place}: {len(ours)} entries, of which {len(theirs)} are known"]
        return [found for pair in zip(ours, theirs) for found in lost(*pair, place)]
    return [] if ours == theirs else [f"{place}: {ours!r} is read as {theirs!r}"]


def validated(value):
    """Validates a model and all models in it: the library validates only what it converts."""
    if isinstance(value, JsonObject):
        value.validate_json()
        for name in sorted(value.attributes):
            validated(getattr(value, name, None))
    elif isinstance(value, (list, tuple)):
        for item in value:
            validated(item)


def check_blocks(blocks, place):
    """Returns the problems of blocks."""
    found = []
    for block in blocks:
        here = f"{place} {block.get('type')}"
        try:
            read = Block.parse(block)
            if read is None:
                found.append(f"{here}: unknown block")
                continue
            validated(read)
            found += lost(block, read, here)
        except Exception as error:  # Each model refuses in its own way.
            found.append(f"{here}: {type(error).__name__}: {error}")
    return found


def check_chunks(chunks, place):
    """Returns the problems of the chunks of a stream."""
    found = []
    for chunk in chunks:
        here = f"{place} {chunk.get('type')}"
        try:
            read = Chunk.parse(chunk)
            if read is None:
                found.append(f"{here}: unknown chunk")
                continue
            validated(read)
            found += lost(chunk, read, here)
            found += check_blocks(chunk.get("blocks") or [], here)
        except Exception as error:  # Each model refuses in its own way.
            found.append(f"{here}: {type(error).__name__}: {error}")
    return found


def check_arguments(function, fields, place):
    """Returns unknown and missing arguments of a call."""
    known, needed = arguments(function)
    found = [f"{place}.{name}: unknown argument" for name in fields if name not in known]
    return found + [f"{place}.{name}: missing argument" for name in needed if name not in fields]


def check(request):
    """Returns the problems of a call."""
    place, _, name = request["path"].lstrip("/").partition("/")
    # The contents of files have no arguments.
    if place in ("upload", "files-pri"):
        return []
    fields, _ = checker.parameters(request)
    if place == "commands":
        found = check_arguments(WebhookClient.send, fields, "response_url")
        return found + check_blocks(fields.get("blocks") or [], "response_url")
    function = getattr(WebClient, name.replace(".", "_"), None)
    if place != "api" or function is None:
        return [f"{request['path']}: unknown method"]
    found = check_arguments(function, fields, name)
    found += check_blocks(fields.get("blocks") or [], name)
    found += check_chunks(fields.get("chunks") or [], name)
    if view := fields.get("view"):
        read = View(**view)
        validated(read)
        found += lost(view, read, f"{name} view")
        found += check_blocks(view["blocks"], f"{name} view")
    return found


checker.serve(check, checker.Exceptions(EXCEPTIONS))
