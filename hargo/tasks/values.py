"""Reading a short factual answer, or a sentence that states one, as the values it gives."""

from __future__ import annotations

import re
import unicodedata

# "If the ID is 3.0-2083, the Submitter is ..." opens with a condition that is not part of the answer
_OPENING = re.compile(r"^(?:if|when|for|with)\b.*?, (?=(?:the|there)\b)")
_CLOSING = re.compile(r" (?:if|when|for|with|in|on|as)\b.*$")
_STATES = re.compile(r"\b(?:is|are|was|were)\s+")
# a comma inside 1,024 separates nothing
_SEPARATOR = re.compile(r"\s*;\s*|\s*,\s+|\s*,(?!\d{3}(?!\d))|,?\s+and\s+")


def normalise(text: str) -> str:
    """The form in which texts are compared: NFC, lower case, single spaces, one minus, no quotes or stop
    around it."""
    text = unicodedata.normalize("NFC", text).replace("\N{MINUS SIGN}", "-").casefold()
    return " ".join(text.split()).strip("\"'`*“”‘’ ").rstrip(".").rstrip()


def alone(value: str) -> re.Pattern[str]:
    """A pattern that finds `value`, which is normalised, where it stands by itself: not in a longer word, number (8 in
    8.5, .8, -8, 1,008 or 8\N{EN DASH}16) or id (8-K)."""
    flexible = r"\s+".join(re.escape(word) for word in value.split())
    number = r"(?<![.\-])(?<!\d['’])" if value[:1].isdigit() or re.match(r"\.\d", value) else ""
    before = rf"(?<!\w)(?<!\w[.\-/–])(?<!\d,){number}"
    return re.compile(rf"{before}{flexible}(?!\w)(?![.\-/–]\w)(?!,\d{{3}}(?!\d))(?!['’]\d)")


def values(text: str) -> list[str]:
    """The values that `text` states, normalised, in order, without repeats.

    A list is split at commas, semicolons and `and`. In a sentence `The A is x and the B is y if the C is z`
    the values are what follows `is`, without the condition: x and y. A heuristic for the sentences of result
    tables, not a parser of English: a text that it cannot take apart is one value.

    >>> values("The Submitter is xFusion and the number of accelerators is 8 for ID 3.0-2083.")
    ['xfusion', '8']
    >>> values("NGC MXNet 23.04, NGC HugeCTR 23.04")
    ['ngc mxnet 23.04', 'ngc hugectr 23.04']
    """
    text = normalise(text)
    found: list[str] = []
    if _STATES.search(text):
        body = _OPENING.sub("", text)
        body = re.split(r" (?:if|when) ", body)[0]
        for clause in re.split(r",? and (?=the\b)|; ", body):
            stated = _STATES.split(clause, maxsplit=1)
            found += _SEPARATOR.split(_CLOSING.sub("", stated[-1]))
    else:
        found = _SEPARATOR.split(text)
    return list(dict.fromkeys(item for part in found if (item := normalise(part))))
