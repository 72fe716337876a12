"""Official rows of every task, from three places: the only user of network and cache.

`mini_rows`, `folder_rows` and `full_rows` open a source, `status` and `pull` look after the cache,
`Row` reads values with file and line at hand, `draws` makes every seeded choice.
"""

from expbench.data.download import Progress
from expbench.data.lock import cache_dir, user_lock
from expbench.data.remote import SourceStatus, full_rows, pull, status
from expbench.data.rows import Row, unique
from expbench.data.sources import OfficialRows, RowSequence, folder_rows, mini_rows, note

__all__ = [
    "OfficialRows",
    "Progress",
    "Row",
    "RowSequence",
    "SourceStatus",
    "cache_dir",
    "folder_rows",
    "full_rows",
    "mini_rows",
    "note",
    "pull",
    "status",
    "unique",
    "user_lock",
]
