"""The bank: experiences as hidden states of the policy, with what each of them is.

On disk a folder: `vectors.safetensors`, `entries.jsonl` (one entry a line, in the order of the
rows) and, written last, `bank.json` with settings and the SHA-256 of the other two. Shapes: N
entries, D the hidden size.
"""

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from
from safetensors.torch import save as tensor_bytes
from torch import Tensor

from expbench.core import Question, canonical_json
from expbench.errors import ConfigError, DataError, RecordError
from expbench.experience import leaks
from expbench.experience.bank_files import (
    ENTRIES,
    SCHEMA,
    SETTINGS,
    VECTORS,
    damaged,
    entry_from_json,
    read_data,
    read_settings,
)
from expbench.experience.memory import Entry, Memory, entry_of
from expbench.experience.normalise import NORMALISATIONS, Normalisation, Statistics
from expbench.experience.search import Index

Policy = Literal["fifo", "best_reward", "random"]
POLICIES: tuple[Policy, ...] = ("fifo", "best_reward", "random")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
GIVEN = ("capacity", "policy", "normalise", "dtype", "seed")
"""Settings that are written and given again when a bank is read."""

__all__ = ["POLICIES", "Bank", "Entry", "Memory", "Policy", "entry_of"]


class Bank:
    """Entries with their vectors, up to a capacity."""

    def __init__(
        self,
        width: int,
        capacity: int,
        encoder: str,
        *,
        policy: Policy = "fifo",
        normalise: Normalisation = "standardise",
        dtype: str = "float32",
        seed: int = 0,
    ) -> None:
        """Make an empty bank.

        Args:
            width: Hidden size of the encoder.
            capacity: Most entries held, at least 1.
            encoder: Fingerprint of the one model whose vectors are let in.
            policy: Who leaves when one too many has come in. `fifo`: the oldest. `best_reward`: the
                lowest reward, among equals the oldest; that may be the newcomer. `random`: one of
                those that were there before, drawn uniformly.
            normalise: How vectors are centred and scaled for reading; they are kept as given.
            dtype: In which the vectors are kept, `float32` or `bfloat16`.
            seed: Of the draws.

        Raises:
            ConfigError: a value that is not allowed.
        """
        for name, given, known in (
            ("policy", policy, POLICIES),
            ("normalise", normalise, NORMALISATIONS),
            ("dtype", dtype, tuple(DTYPES)),
        ):
            if given not in known:
                raise ConfigError(f"{name} is {given!r}; it must be one of {', '.join(known)}.")
        if width < 1 or capacity < 1:
            raise ConfigError(
                f"The bank's width is {width} and its capacity {capacity}; both must be at least 1."
            )
        self.width = width
        self.capacity = capacity
        self.encoder = encoder
        self.policy: Policy = policy
        self.normalise: Normalisation = normalise
        self.dtype = dtype
        self.seed = seed
        self._entries: list[Entry] = []
        self._vectors_ND = torch.zeros(0, width, dtype=DTYPES[dtype])
        self._query: Statistics | None = None
        self._draws = 0
        self._shuffle: int | None = None
        self._memory: Memory | None = None

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries, oldest first."""
        return tuple(self._entries)

    @property
    def vectors_ND(self) -> Tensor:
        """Their vectors as they were given, (N, D) in the bank's dtype on the CPU; not a copy."""
        return self._vectors_ND

    @property
    def query(self) -> Statistics | None:
        """Statistics of the states that become queries; None: those of the bank's own vectors."""
        return self._query

    @query.setter
    def query(self, value: Statistics | None) -> None:
        if value is not None and len(value.centre_D) != self.width:
            raise DataError(
                f"The query statistics are {len(value.centre_D)} wide and the bank {self.width}."
            )
        self._query = None if value is None else value.to("cpu")
        if self._memory is not None:
            # The search structure outlives a change of the queries' statistics.
            self._memory = self._read(self._memory.z_ND, self._memory.index)

    def add(self, entries: Sequence[Entry], vectors_ND: Tensor) -> None:
        """Let entries in, all or none, and let others go where capacity is exceeded.

        Args:
            entries: Their encoder must be the bank's, their split `train`, their ids new.
            vectors_ND: (entries, D), any floating type, finite.

        Raises:
            DataError: what is wrong with which entry; the bank is then as before.
        """
        vectors_ND = self._checked(entries, vectors_ND)
        if not entries:
            return
        all_entries = [*self._entries, *entries]
        kept = self._kept(all_entries)
        self._vectors_ND = torch.cat([self._vectors_ND, vectors_ND])[kept]
        self._entries = [all_entries[i] for i in kept]
        self._memory = None

    def _checked(self, entries: Sequence[Entry], vectors_ND: Tensor) -> Tensor:
        if vectors_ND.ndim != 2 or len(vectors_ND) != len(entries):
            raise DataError(
                f"{len(entries)} entries came with vectors of shape {tuple(vectors_ND.shape)}; "
                f"it must be ({len(entries)}, {self.width})."
            )
        if entries and vectors_ND.shape[1] != self.width:
            raise DataError(
                f"The vectors are {vectors_ND.shape[1]} wide and the bank {self.width}; "
                "encode with the bank's own model."
            )
        known = {entry.id for entry in self._entries}
        for entry in entries:
            if entry.encoder != self.encoder:
                raise DataError(
                    f"Entry {entry.id!r} was encoded by {entry.encoder!r} and the bank holds "
                    f"vectors of {self.encoder!r}; encode its summary again."
                )
            if entry.split != "train":
                raise DataError(
                    f"Entry {entry.id!r} is of the {entry.split!r} split; a bank learns from "
                    "`train` alone."
                )
            if entry.id in known:
                raise DataError(f"Entry {entry.id!r} is there already; ids are given once.")
            known.add(entry.id)
        finite_N = torch.isfinite(vectors_ND).all(1)
        if not bool(finite_N.all()):
            broken = entries[int((~finite_N).nonzero()[0])]
            raise DataError(
                f"The vector of entry {broken.id!r} holds NaN or infinity; its encoder is broken."
            )
        return vectors_ND.detach().to("cpu", DTYPES[self.dtype])

    def _kept(self, entries: Sequence[Entry]) -> list[int]:
        """Return the places that stay, oldest first, as if the newcomers came one by one."""
        count, places = len(entries), list(range(len(entries)))
        if count <= self.capacity:
            return places
        if self.policy == "fifo":
            return places[count - self.capacity :]
        if self.policy == "best_reward":
            ranked = sorted(places, key=lambda i: (entries[i].reward, i))
            return sorted(ranked[count - self.capacity :])
        held = places[: self.capacity]
        for newcomer in places[self.capacity :]:
            # `random.random` is the one generator that is the same in every Python.
            draw = random.Random(f"bank/{self.seed}/{self._draws}").random()
            self._draws += 1
            held.pop(int(draw * self.capacity))
            held.append(newcomer)
        return held

    def memory(self) -> Memory:
        """Return what the fusion reads; the same object until the bank changes."""
        if self._memory is None:
            order = self._by_id()
            statistics = Statistics.of(self._vectors_ND, self.normalise)
            z_ND = statistics.apply(self._vectors_ND[order].float())
            index = Index(z_ND)
            if self._shuffle is not None:
                z_ND = z_ND[_cycle(len(z_ND), self._shuffle)]
            self._memory = self._read(z_ND, index)
        return self._memory

    def _by_id(self) -> list[int]:
        return sorted(range(len(self._entries)), key=lambda i: self._entries[i].id)

    def _read(self, z_ND: Tensor, index: Index) -> Memory:
        return Memory(
            entries=tuple(self._entries[i] for i in self._by_id()),
            z_ND=z_ND,
            index=index,
            query=self._query or Statistics.of(self._vectors_ND, self.normalise),
        )

    def refuse_leaks(self, test: Iterable[Question]) -> None:
        """Refuse a run whose bank holds a test sample.

        Raises:
            DataError: the first entry that a test question is recognised by, and why.
        """
        tested = {key: question.id for question in test for key in leaks.identities(question)}
        for entry in self._entries:
            for key in entry.identities:
                if key in tested:
                    raise DataError(
                        f"Test sample {tested[key]!r} of {entry.task} is in the bank "
                        f"as {entry.id!r} (same {key[0]}); remove it there."
                    )

    def empty_copy(self) -> "Bank":
        """Return a bank with the same settings and query statistics, and no entries."""
        copy = Bank(
            self.width,
            self.capacity,
            self.encoder,
            policy=self.policy,
            normalise=self.normalise,
            dtype=self.dtype,
            seed=self.seed,
        )
        copy._query = self._query
        return copy

    def shuffled(self, seed: int) -> "Bank":
        """Return a control in which the search finds the same entries but reads others' vectors.

        Were the vectors only given other names, the fusion would see the same set and nothing
        would change; here `memory().index` keeps every entry's own vector and `memory().z_ND`
        holds, at its position, that of another (drawn by `seed`; its own only where N is 1).
        """
        copy = self._copy(self._vectors_ND)
        copy._shuffle = seed
        return copy

    def random(self, seed: int) -> "Bank":
        """Return a control with gaussian vectors of the same mean and scale."""
        generator = torch.Generator().manual_seed(seed)
        statistics = Statistics.of(self._vectors_ND, "standardise")
        noise_ND = torch.randn(self._vectors_ND.shape, generator=generator)
        drawn_ND = statistics.centre_D + statistics.scale * noise_ND
        return self._copy(drawn_ND.to(self._vectors_ND.dtype))

    def _copy(self, vectors_ND: Tensor) -> "Bank":
        copy = self.empty_copy()
        copy._entries, copy._vectors_ND = list(self._entries), vectors_ND
        copy._draws, copy._shuffle = self._draws, self._shuffle
        return copy

    @property
    def checksum(self) -> str:
        """SHA-256 (hex) over entries, vectors, query statistics and settings."""
        return str(self._files()[1]["checksum"])

    def _files(self) -> tuple[dict[str, bytes], dict[str, Any]]:
        """Return the two data files and what `bank.json` says of them."""
        tensors = {"vectors": self._vectors_ND.contiguous()}
        if self._query is not None:
            tensors["query_centre"] = self._query.centre_D.contiguous()
        lines = "".join(canonical_json(asdict(entry)) + "\n" for entry in self._entries)
        data = {VECTORS: tensor_bytes(tensors), ENTRIES: lines.encode()}
        info = {
            "schema": SCHEMA,
            "width": self.width,
            "capacity": self.capacity,
            "encoder": self.encoder,
            "policy": self.policy,
            "normalise": self.normalise,
            "dtype": self.dtype,
            "seed": self.seed,
            "draws": self._draws,
            "shuffle": self._shuffle,
            "query_scale": None if self._query is None else self._query.scale,
            "sha256": {name: sha256(content).hexdigest() for name, content in data.items()},
        }
        info["checksum"] = sha256(canonical_json(info).encode()).hexdigest()
        return data, info

    def save(self, folder: Path) -> None:
        """Write the bank into a folder, replacing one that is there.

        Raises:
            RecordError: the folder cannot be written.
        """
        data, info = self._files()
        data[SETTINGS] = canonical_json(info).encode() + b"\n"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # Without its settings a folder is no bank: a kill in between leaves nothing to misread.
            (folder / SETTINGS).unlink(missing_ok=True)
            for name, content in data.items():
                (folder / name).write_bytes(content)
        except OSError as error:
            raise RecordError(f"Cannot write the bank in {folder}: {error.strerror}.") from error

    @classmethod
    def load(cls, folder: Path, *, encoder: str, width: int) -> "Bank":
        """Read a bank.

        Args:
            folder: Where `save` wrote it.
            encoder: Fingerprint that the bank must have.
            width: Width that the bank must have.

        Raises:
            DataError: absent, half-written or damaged files, another encoder or width.
        """
        info = read_settings(folder)
        if info["encoder"] != encoder or info["width"] != width:
            raise DataError(
                f"The bank in {folder} was made by encoder {info['encoder']!r} of width "
                f"{info['width']}, and {encoder!r} of width {width} is asked for; "
                "build the bank with this model."
            )
        try:
            bank = cls(width, encoder=encoder, **{name: info[name] for name in GIVEN})
            tensors = tensors_from(read_data(folder, VECTORS, info))
            lines = read_data(folder, ENTRIES, info).decode().splitlines()
            bank._entries = [entry_from_json(json.loads(line)) for line in lines]
            bank._vectors_ND = tensors["vectors"]
            bank._draws, bank._shuffle = info["draws"], info["shuffle"]
            if info["query_scale"] is not None:
                bank._query = Statistics(tensors["query_centre"], info["query_scale"])
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise damaged(folder, str(error)) from error
        if bank._vectors_ND.shape != (len(bank), width):
            raise damaged(folder, "entries and vectors differ in number")
        return bank


def _cycle(count: int, seed: int) -> list[int]:
    """Draw a permutation without fixed points: one cycle through all places."""
    rng = random.Random(f"shuffle/{seed}")
    keys = [rng.random() for _ in range(count)]
    order = sorted(range(count), key=keys.__getitem__)
    target = [0] * count
    for place, following in zip(order, [*order[1:], *order[:1]], strict=True):
        target[place] = following
    return target
