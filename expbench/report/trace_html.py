"""A `Trace` as one HTML page that asks nothing of any network.

The page is the template `trace.html` with the data as JSON inside. Everything a model or data set
wrote reaches the page through `textContent`, never as markup, and the page's policy allows only the
template's own script, named by its hash.
"""

import base64
import hashlib
import html
import json
import re
from importlib.resources import files
from typing import Any

from expbench.report.trace import Answer, Trace
from expbench.report.visible import visible

_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_SLOT = re.compile(r"@@(TITLE|POLICY|DATA)@@")
_TOP = 20
UNIT = 10_000
"""Gates and weights are written as whole numbers of 1/10,000, which halves the page."""


def trace_page(trace: Trace) -> str:
    """Write the page; about 0.7 MB for 32 answers of 256 tokens with 8 experiences each."""
    template = files("expbench.report").joinpath("trace.html").read_text(encoding="utf-8")
    slots = {
        "TITLE": html.escape(trace.title),
        "POLICY": _policy(template),
        "DATA": _embedded(_data(trace)),
    }
    return _SLOT.sub(lambda found: slots[found[1]], template)


def _policy(template: str) -> str:
    [script] = _SCRIPT.findall(template)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _embedded(value: Any) -> str:
    """Serialise so that no text can end the script element or break a line of it."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _data(trace: Trace) -> dict[str, Any]:
    return {
        "run": trace.run_id,
        "title": trace.title,
        "unit": UNIT,
        "widest": trace.widest_gate,
        "entries": [
            {
                "id": entry.id,
                "task": entry.task,
                "sample": entry.sample_id,
                "reward": entry.reward,
                "step": entry.step,
                "summary": entry.summary,
            }
            for entry in trace.entries
        ],
        "answers": [_answer(answer) for answer in trace.answers],
    }


def _answer(answer: Answer) -> dict[str, Any]:
    found = answer.influences()
    return {
        "id": answer.sample_id,
        "question": answer.question,
        "text": answer.text,
        "target": answer.target,
        "score": answer.score,
        "explanation": answer.explanation,
        "gate": answer.mean_gate,
        "tokens": [token.text for token in answer.tokens],
        "gates": [round(token.gate * UNIT) for token in answer.tokens],
        "ids": [token.entries for token in answer.tokens],
        "weights": [[round(w * UNIT) for w in token.weights] for token in answer.tokens],
        "top": [[i.entry, round(i.mean, 6), round(i.peak, 6), i.tokens] for i in found[:_TOP]],
        "touched": len(found),
        "notes": [visible(json.dumps(note, ensure_ascii=False, indent=1)) for note in answer.notes],
    }
