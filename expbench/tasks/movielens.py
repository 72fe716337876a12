"""MovieLens-1M: rank the movie that a user rates next (Harper and Konstan 2015).

Source: https://files.grouplens.org/datasets/movielens/ml-1m.zip (`ratings.dat`, `movies.dat`), or
RecBole's atomic files of it in a folder of yours: one `*.inter` and one `*.item`. Rows (invented):

    1::7::4::978300760                          user, item, rating, time
    7::Quiet Harbour, The (1961)::Drama         item, title, genres

The GroupLens terms forbid redistribution, so nobody can bundle the data. Ratings are not used: a
rated movie is a watched movie. The year is part of the title. Rules: see `next_item`.
"""

from collections.abc import Mapping, Sequence

from expbench.core import Rows, Sample, Source, Split, Task
from expbench.tasks.grading import grade_ranking
from expbench.tasks.next_item import Catalogue, gold, load_ranking
from expbench.tasks.prompts import MAX_TOKENS, ranking_prompt

_ZIP = "https://files.grouplens.org/datasets/movielens/ml-1m.zip"
CATALOGUE = Catalogue(
    task="movielens",
    user=("user_id",),
    item=("item_id",),
    time=("timestamp",),
    title=("movie_title", "title"),
    question="A user watched these movies, oldest first:",
)


def _load(rows: Rows) -> Mapping[Split, Sequence[Sample]]:
    return load_ranking(rows, CATALOGUE)


TASK = Task(
    name="movielens",
    version=1,
    title="The next movie of a user",
    scenario="recommendation",
    group="rec",
    kind="ranking",
    metric="NDCG@10",
    source=Source(
        dataset="MovieLens-1M",
        urls={"ml-1m.inter": f"{_ZIP}#ml-1m/ratings.dat", "ml-1m.item": f"{_ZIP}#ml-1m/movies.dat"},
        licence="GroupLens terms: no redistribution, no commercial use",
        paper="Harper and Konstan 2015, doi 10.1145/2827872",
        splits=("*.inter", "*.item"),
    ),
    load=_load,
    prompt=ranking_prompt,
    grade=grade_ranking,
    gold=gold,
    max_tokens=MAX_TOKENS["ranking"],
)
