"""Reads recorded requests as JSON lines, and answers each line with the problems that a checker finds in them.

A line is a list of requests: {"method", "path", "query", "type", "body"}. The answer is a list of texts. The line
"unused" asks which entries of the list of exceptions no request needed, which shows that they can be removed.
"""

import email.parser
import email.policy
import json
import sys
import urllib.parse


def parameters(request):
    """Returns the fields of a body, and the names of those that are files."""
    kind, body = request["type"], request["body"]
    if kind.startswith("multipart/"):
        head = f"Content-Type: {kind}\r\n\r\n"
        message = email.parser.Parser(policy=email.policy.HTTP).parsestr(head + body)
        fields, files = {}, set()
        for part in message.iter_parts():
            name = part.get_param("name", header="content-disposition")
            fields[name] = part.get_content()
            if part.get_filename() is not None:
                files.add(name)
        return {name: value if name in files else text(value) for name, value in fields.items()}, files
    if kind.startswith("application/x-www-form-urlencoded"):
        return {name: text(value) for name, value in urllib.parse.parse_qsl(body, keep_blank_values=True)}, set()
    if not body:
        return dict(urllib.parse.parse_qsl(request["query"], keep_blank_values=True)), set()
    return json.loads(body), set()


def text(value):
    """Returns a field of a form as what its text stands for: JSON if it is a list, an object, a number or a truth."""
    value = value.decode() if isinstance(value, bytes) else value
    value = value.rstrip("\r\n") if value.endswith("\n") else value
    try:
        meant = json.loads(value)
    except ValueError:
        return value
    return value if isinstance(meant, (str, float)) or meant is None else meant


class Exceptions:
    """The problems that are accepted, with their reasons, and those among them that occurred."""

    def __init__(self, reasons):
        self.reasons = reasons
        self.used = set()

    def remaining(self, problems):
        """Returns the problems that are no exceptions."""
        left = []
        for problem in problems:
            known = [start for start in self.reasons if problem.startswith(start)]
            self.used.update(known)
            if not known:
                left.append(problem)
        return left


def serve(check, exceptions):
    """Answers lines until the input ends. `check` returns the problems of one request."""
    for line in sys.stdin:
        asked = json.loads(line)
        if asked == "unused":
            answer = sorted(set(exceptions.reasons) - exceptions.used)
        else:
            answer = []
            for request in asked:
                try:
                    found = check(request)
                except Exception as error:  # The library refuses in its own ways.
                    found = [f"{request['path'].rsplit('/', 1)[-1]}: {type(error).__name__}: {error}"]
                shown = request["body"][:2000]
                answer += [f"{problem} in {shown}" for problem in exceptions.remaining(found)]
        print(json.dumps(answer), flush=True)
