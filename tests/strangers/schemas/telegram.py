"""Checks recorded calls of the Bot API with the types of aiogram: methods, fields, types, and the limits that the
descriptions of its fields state."""

import ast
import functools
import inspect
import json
import re
import textwrap

import aiogram.methods
import aiogram.types
import checker
from pydantic import BaseModel

# Start of a problem -> the reason why it is accepted.
EXCEPTIONS = {}

METHODS = {
    method.__api_method__: method
    for method in vars(aiogram.methods).values()
    if inspect.isclass(method) and hasattr(method, "__api_method__") and method.__module__ != "aiogram.methods.base"
}
LENGTH = re.compile(r"(\d+)-(\d+) (characters|bytes)")
COUNT = re.compile(r"[Aa]t most (\d+) ")


@functools.cache
def limits(kind):
    """Returns the limits of the fields of a type: least and most, and what is counted."""
    found = {}
    for base in reversed(kind.__mro__):
        if "[" in base.__name__ or not base.__module__.startswith(("aiogram.methods.", "aiogram.types.")):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0].body
        for field, words in zip(body, body[1:]):
            is_field = isinstance(field, ast.AnnAssign) and isinstance(words, ast.Expr)
            if not is_field or not isinstance(words.value, ast.Constant):
                continue
            words = str(words.value.value)
            if length := LENGTH.search(words):
                found[field.target.id] = (int(length[1]), int(length[2]), length[3])
            elif count := COUNT.search(words):
                found[field.target.id] = (0, int(count[1]), "entries")
    return found


def measure(value, unit):
    """Returns the size of a value."""
    return len(value.encode()) if unit == "bytes" else len(value)


def problems(value, place):
    """Returns unknown fields, and values beyond their limits, of a value and of all in it."""
    found = []
    if isinstance(value, BaseModel):
        found += [f"{place}.{name}: unknown field" for name in value.model_extra or {}]
        for name, (least, most, unit) in limits(type(value)).items():
            field = getattr(value, name, None)
            if isinstance(field, (str, list)) and not least <= measure(field, unit) <= most:
                found.append(f"{place}.{name}: {measure(field, unit)} {unit}, allowed are {least} to {most}")
        for name in type(value).model_fields:
            found += problems(getattr(value, name), f"{place}.{name}")
    elif isinstance(value, list):
        for item in value:
            found += problems(item, place)
    return found


def check(request):
    """Returns the problems of a call."""
    # The contents of files have no arguments.
    if request["path"].startswith("/file/"):
        return []
    name = request["path"].rsplit("/", 1)[-1]
    method = METHODS.get(name)
    if method is None:
        return [f"{name}: unknown method"]
    fields, files = checker.parameters(request)
    fields |= {field: "attach://file" for field in files}
    unknown = [f"{name}.{field}: unknown field" for field in fields if field not in method.model_fields]
    read = method.model_validate_json(json.dumps(fields), strict=True)
    return sorted(set(unknown + problems(read, name)))


checker.serve(check, checker.Exceptions(EXCEPTIONS))
