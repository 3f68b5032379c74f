"""Which words of a program are names, by their role and not by their looks, and programs without their names.

`h`, `result`, `read` or `task` may be a word of the language, of a directive or of an included file in one place and a
variable in another. Two programs that differ in names, numbers, strings and layout only are equal once masked, so a
consistent renaming never hides a twin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hargo.data.grammar import Line, Token, lines
from hargo.data.programs import unwrap

_C_WORDS_TEXT = """
    auto bool break case catch char class const constexpr continue default delete do double else enum extern false
    float for friend goto if inline int long namespace new nullptr operator private protected public register
    restrict return short signed sizeof static struct switch template this throw true try typedef typename union
    unsigned using virtual void volatile while
"""
C_WORDS = frozenset(_C_WORDS_TEXT.split())
_FORTRAN_WORDS_TEXT = """
    allocatable allocate associate backspace block call case character class close common complex contains continue
    cycle data deallocate default dimension do double elemental else elseif elsewhere end enddo endif entry enum
    equivalence exit external file format forall function go goto if implicit import in include inout inquire
    integer intent interface intrinsic kind len logical module namelist none nullify only open optional out
    parameter pointer precision print private procedure program protected public pure read real recursive result
    return rewind save select selectcase sequence stat stop subroutine target then to type unit use value volatile
    where while write
"""
FORTRAN_WORDS = frozenset(_FORTRAN_WORDS_TEXT.split())
_DIRECTIVE_WORDS_TEXT = """
    acq_rel acquire affinity aligned alloc allocate allocator allocators assume atomic auto barrier bind cancel
    cancellation capture close collapse compare concurrent conditional copyin copyprivate critical declare default
    defaultmap depend dependences depobj detach device device_type dispatch dist_schedule distribute do doacross
    dynamic end enter exclusive exit fail filter final firstprivate flush for from grainsize guided hint if in
    in_reduction inbranch inclusive inout inoutset interop is_device_ptr lastprivate linear link loop map masked
    master max mergeable min modifier monotonic mutexinoutset nogroup none nonmonotonic nontemporal notinbranch
    nowait num_tasks num_teams num_threads omp ompx or order ordered out parallel pragma present primary priority
    private proc_bind read reduction relaxed release requires reverse runtime safelen scan schedule section sections
    seq_cst shared simd simdlen single sink source spread static target task task_reduction taskgroup taskloop
    taskwait taskyield teams thread_limit threadprivate threads to tofrom unified_shared_memory uniform untied
    update use_device_addr use_device_ptr weak when workshare write
"""
DIRECTIVE_WORDS = frozenset(_DIRECTIVE_WORDS_TEXT.split())
_CHOICES_TEXT = """
    schedule dist_schedule default defaultmap proc_bind bind order device_type directive sequence
"""
_CHOICES = frozenset(_CHOICES_TEXT.split())
_PREPROCESSOR_TEXT = """
    define defined elif else endif error if ifdef ifndef include line once pragma undef warning
"""
_PREPROCESSOR = frozenset(_PREPROCESSOR_TEXT.split())


def mask(code: str, language: str) -> list[str]:
    """The code's tokens, names as `v`, numbers as `n` and strings as `s`; without comments, white space and what joins
    lines, case folded, directives in one spelling.

    Two programs that differ in names, sizes and layout only are the same after masking.
    """
    masked = []
    for (kind, text), named in roles(unwrap(code), language):
        if kind == "name":
            masked.append("v" if named else text.lower())
        elif kind == "sentinel":
            masked += ["!$", "omp"] if language != "c" else ["#"] if text[0] in "#%?" else ["#", "pragma"]
        elif kind in ("number", "string"):
            masked.append(kind[0])
        elif kind == "other":
            masked.append(text)
    return masked


def roles(code: str, language: str) -> Iterator[tuple[Token, bool]]:
    """Each token with whether it is a name."""
    program = lines(code, language)
    words = C_WORDS if language == "c" else FORTRAN_WORDS - {name for line in program for name in declared(line)}
    for line in program:
        yield from zip(line.tokens, _named(line, words, language), strict=True)


def _named(line: Line, words: frozenset[str], language: str) -> Iterator[bool]:
    """Whether each token of a line is a name. words: what is no name outside directives"""
    significant = [t for t in line.tokens if t.kind not in ("space", "comment", "layout")]
    command = significant[1].text if len(significant) > 1 and significant[0].text in ("#", "%:", "??=") else ""
    directive, openers, place = False, [""], -1
    for token in line.tokens:
        kind, text = token
        if kind in ("space", "comment", "layout"):
            yield False
            continue
        place += 1
        before = significant[place - 1].text if place else ""
        after = significant[place + 1].text if place + 1 < len(significant) else ""
        if kind in ("sentinel", "close"):
            directive = kind == "sentinel" and not text.endswith("$")
        elif text == "(":
            openers.append(before.lower())
        elif text == ")" and len(openers) > 1:
            openers.pop()
        if kind != "name":
            yield False
        elif directive and text.lower() in DIRECTIVE_WORDS:
            yield not (len(openers) == 1 or after == ":" or openers[-1] in _CHOICES)
        elif command and language == "c":
            yield command != "include" and text not in words | _PREPROCESSOR
        else:
            yield before == "%" or (text if language == "c" else text.lower()) not in words


_TYPES = frozenset(("integer", "real", "logical", "character", "complex", "double", "type", "class"))


def declared(line: Line) -> list[str]:
    """Names, in lower case, that a line of Fortran declares or that stand alone left of `=`."""
    if line.directive:
        return []
    stream = [t.text.lower() for t in line.tokens if t.kind not in ("space", "comment", "layout", "sentinel")]
    if stream[1:2] == ["="] and stream[2:3] != ["="]:
        return stream[:1]
    if not stream or stream[0] not in _TYPES or "function" in stream:
        return []
    start = _after_type(stream)
    found, depth, expected = [], 0, True
    for text in stream[start:]:
        depth += (text == "(") - (text == ")")
        if expected and re.match("[a-z_]", text):
            found.append(text)
        expected = text == "," and depth == 0
    return found


def _after_type(stream: list[str]) -> int:
    """Where the names of a declaration begin: after `::`, or after the type and its size."""
    for place in range(len(stream) - 1):
        if stream[place] == stream[place + 1] == ":" and stream[:place].count("(") == stream[:place].count(")"):
            return place + 2
    place = 2 if stream[:2] == ["double", "precision"] else 1
    if stream[place : place + 1] == ["*"]:
        place += 2
    if stream[place : place + 1] == ["("]:
        place = stream.index(")", place) + 1 if ")" in stream[place:] else len(stream)
    return place
