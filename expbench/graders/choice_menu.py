"""The menu of a multiple-choice question: where a reply mentions a label or an option's text."""

import re
from dataclasses import dataclass
from functools import lru_cache

# Each mention of a label becomes one private-use character, so that patterns stay readable.
FIRST = 0xE000
MARK = "[\ue000-\uf8ff]"

_CONNECTIVES = r"is|was|because|since|as|and|or|but|not|isn't|instead|rather|over|excluded|wrong"
_MARKUP = re.compile(
    r"\\(?:text|textbf|mathrm|mathbf|boxed|fbox)\s{0,4}\{|\\[()\[\]]|(?<!\w)'|'(?!\w)|[*_`\"$“”„{}]"
)


@dataclass(frozen=True)
class Menu:
    """Labels and option texts, prepared for matching."""

    labels: tuple[str, ...]
    texts: tuple[str, ...]
    """Option texts in folded form."""
    mention: re.Pattern[str]
    """A label that stands alone; group 1 where brackets or a word like "option" mark it."""
    named: re.Pattern[str]
    """Any option text as whole words, longest first."""

    def mark(self, text: str) -> str:
        """Replace each mention of a label by its private-use character."""

        def symbol(match: re.Match[str]) -> str:
            label = match[1] or match[2]
            index = self.index(label)
            exact = match[2] is None or label == self.labels[index] or match.start() == 0
            return chr(FIRST + index) if exact else match[0]

        return self.mention.sub(symbol, text)

    def index(self, label: str) -> int:
        """Find a label, by exact spelling first."""
        if label in self.labels:
            return self.labels.index(label)
        return [known.casefold() for known in self.labels].index(label.casefold())

    def marks(self, text: str) -> set[str]:
        """List the labels that are marked in a text."""
        return {self.labels[ord(char) - FIRST] for char in re.findall(MARK, text)}

    def with_text(self, text: str) -> set[str]:
        """List the labels whose option text equals the text."""
        folded = fold(text)
        return {k for k, t in zip(self.labels, self.texts, strict=True) if folded and t == folded}


@lru_cache(maxsize=256)
def menu_of(labels: tuple[str, ...], choices: tuple[str, ...]) -> Menu:
    """Compile the patterns of one question."""
    one = "|".join(sorted(map(re.escape, labels), key=len, reverse=True))
    texts = tuple(map(fold, choices))
    longest_first = sorted({t for t in texts if len(t) > 1}, key=len, reverse=True)
    edge = "A-Za-z0-9À-ɏЀ-ӿ"
    mention = (
        rf"(?:(?<![{edge}])(?:options?|choices?)\s+\(?|选项|選項|[(\[<（【])({one})(?![{edge}'’])"
        rf"[)\]>）】]?|(?<![{edge}_'’.\-])({one})(?![{edge}_'’%]|-\w|[.,]\d)"
        # "A ring" and "I know" begin with an article and a pronoun, "A because" does not.
        rf"(?:(?<![AaIi])|(?!\s+(?!(?:{_CONNECTIVES})\b)[a-zA-Z]))"
    )
    named = "|".join(map(re.escape, longest_first)) or r"(?!)"
    return Menu(
        labels,
        texts,
        re.compile(mention, re.I | re.A),
        re.compile(rf"(?<![{edge}])(?:{named})(?![{edge}])"),
    )


def plain(text: str) -> str:
    """Remove markup, so that **B**, $B and a text macro read as B, and private-use letters."""
    return _MARKUP.sub("", re.sub(MARK, "", text.replace("’", "'"))).strip()


def fold(text: str) -> str:
    """Compare option texts without case, outer punctuation and a leading article."""
    folded = re.sub(r"\s+", " ", plain(text)).casefold().strip(" .,:;!()[]")
    return re.sub(r"^(?:the|an?) (?=\w)", "", folded)
