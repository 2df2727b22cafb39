"""Writes src/carillon/types.py: a TypedDict for each schema of the OpenAPI document that the package uses.

    carillon openapi | python generate.py > src/carillon/types.py

`make sdk-types` does that, and `make sdk-test` fails if the file is not what would be written. It needs the
standard library alone, so that this check costs next to nothing.
"""

import json
import keyword
import sys
import textwrap

# What is asked for, and what is answered; what they refer to follows.
ASKED = ["JobRequest", "TaskRequest", "WorkflowRequest", "TriggerRequest", "PreviewRequest"]
ANSWERED = [
    "Job", "Run", "Task", "Workflow", "Event", "EventReceipt", "ImportResult", "ImportSummary", "NextRun", "Preview",
    "Problem", "LogLine",
]  # fmt: skip
DURATION = "^[+-]?([0-9]+("  # how the pattern of every duration begins
HEAD = '''"""The types of the API. Generated from its OpenAPI document by generate.py: not to be edited.

Answers have times as text (RFC 3339; `carillon.instant` reads them) and durations as text such as "1m30s"
(`carillon.span` reads them). Where a request alone has one, a datetime or a timedelta may stand as well.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict
'''


def refers_to(schema, found):
    """Adds to found the names of all schemas that a part of a document refers to."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            found.add(schema["$ref"].rsplit("/", 1)[1])
        for part in schema.values():
            refers_to(part, found)
    elif isinstance(schema, list):
        for part in schema:
            refers_to(part, found)


def closure(schemas, roots):
    found, left = set(), list(roots)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            more = set()
            refers_to(schemas[name], more)
            left.extend(more)
    return found


def type_of(schema, asked):
    """Returns the type of a value. asked: it is of requests alone."""
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[1]
    for several in ("oneOf", "anyOf"):
        if several in schema:
            return " | ".join(dict.fromkeys(type_of(one, asked) for one in schema[several]))
    if "enum" in schema:
        return "Literal[" + ", ".join(json.dumps(v) for v in schema["enum"]) + "]"
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((k for k in kind if k != "null"), None)
    if kind == "string":
        if asked and schema.get("format") == "date-time":
            return "str | datetime"
        if asked and schema.get("pattern", "").startswith(DURATION):
            return "str | timedelta"
        return "str"
    if kind == "array":
        return f"list[{type_of(schema.get('items', {}), asked)}]"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {type_of(values, asked) if isinstance(values, dict) else 'Any'}]"
    return {"integer": "int", "number": "float", "boolean": "bool"}.get(kind, "Any")


def comment(text, indent):
    return textwrap.wrap(text, width=100 - len(indent), initial_indent=indent + "# ", subsequent_indent=indent + "# ") if text else []


def class_of(name, schema, asked):
    """Returns the lines of a TypedDict. Fields that must be there stand in a base of their own, since
    `Required` came with Python 3.11; so do those whose name is a keyword, which a class cannot spell."""
    lines, bases = [], []
    required = set(schema.get("required", []))
    fields = sorted(schema.get("properties", {}).items())
    for total, part in ((True, "Required"), (False, "Optional")):
        words = {f: type_of(s, asked) for f, s in fields if keyword.iskeyword(f) and (f in required) == total}
        if words:
            base = f"_{name}Keywords{part}"
            spelt = ", ".join(f"{json.dumps(f)}: {json.dumps(t)}" for f, t in words.items())
            lines += [f"{base} = TypedDict({json.dumps(base)}, {{{spelt}}}, total={total})", "", ""]
            bases.append(base)
    plain = [(f, s) for f, s in fields if not keyword.iskeyword(f)]
    must = [(f, s) for f, s in plain if f in required]
    may = [(f, s) for f, s in plain if f not in required]
    if must:
        base = f"_{name}Required"
        lines += [f"class {base}(TypedDict):", *body(must, asked), "", ""]
        bases.append(base)
    lines += comment(schema.get("description", ""), "")
    lines += [f"class {name}({', '.join([*bases, 'total=False'] if bases else ['TypedDict', 'total=False'])}):"]
    lines += body(may, asked) if may else ["    pass"]
    return lines


def body(fields, asked):
    lines = []
    for field, schema in fields:
        lines += comment(schema.get("description", ""), "    ")
        lines.append(f"    {field}: {type_of(schema, asked)}")
    return lines


def main():
    schemas = json.load(sys.stdin)["components"]["schemas"]
    answered = closure(schemas, ANSWERED)
    print(HEAD)
    # A class stands after no other that it needs: annotations are read late, and bases are its own.
    for name in sorted(closure(schemas, ASKED) | answered):
        print("\n" + "\n".join(class_of(name, schemas[name], name not in answered)) + "\n")


if __name__ == "__main__":
    main()
