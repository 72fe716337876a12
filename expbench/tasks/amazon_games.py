"""Amazon Reviews 2018, Video Games 5-core: rank the game that a user buys next (Ni et al. 2019).

Source: https://cseweb.ucsd.edu/~jmcauley/datasets/amazon_v2/ (reviews and product metadata), or
RecBole's atomic files in a folder of yours: one `*.inter` and one `*.item`. Rows (invented):

    {"reviewerID": "A1", "asin": "B0", "unixReviewTime": 1368316800, "overall": 5.0}
    {"asin": "B0", "title": "Castle &amp; Cart"}

Products without a title, and interactions with them, are dropped and counted in a note; of a
product that is listed twice the first entry counts. Ratings are not used. Rules: see `next_item`.
"""

from collections.abc import Mapping, Sequence

from expbench.core import Rows, Sample, Source, Split, Task
from expbench.tasks.grading import grade_ranking
from expbench.tasks.next_item import Catalogue, gold, load_ranking
from expbench.tasks.prompts import MAX_TOKENS, ranking_prompt

_SITE = "https://mcauleylab.ucsd.edu/public_datasets/data/amazon_v2"
CATALOGUE = Catalogue(
    task="amazon_games",
    user=("user_id", "reviewerID"),
    item=("item_id", "asin"),
    time=("timestamp", "unixReviewTime"),
    title=("title",),
    question="A user bought these video game products, oldest first:",
)


def _load(rows: Rows) -> Mapping[Split, Sequence[Sample]]:
    return load_ranking(rows, CATALOGUE)


TASK = Task(
    name="amazon_games",
    version=1,
    title="The next video game product of a user",
    scenario="recommendation",
    group="rec",
    kind="ranking",
    metric="NDCG@10",
    source=Source(
        dataset="Amazon Reviews 2018, Video Games 5-core",
        urls={
            "games.inter": f"{_SITE}/categoryFilesSmall/Video_Games_5.json.gz",
            "games.item": f"{_SITE}/metaFiles2/meta_Video_Games.json.gz",
        },
        licence="none stated; for research, see the source page",
        paper="Ni, Li and McAuley 2019, doi 10.18653/v1/D19-1018",
        splits=("*.inter", "*.item"),
    ),
    load=_load,
    prompt=ranking_prompt,
    grade=grade_ranking,
    gold=gold,
    max_tokens=MAX_TOKENS["ranking"],
)
