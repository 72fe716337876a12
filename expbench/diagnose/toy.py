"""The toy backbone of key-value worlds: a Llama of 2 layers that knows the format, not the values.

Built and pre-trained in a second without network. Only the head is pre-trained, so that the model
names some value after `KEY k Q` and the states of its layers stay as they were drawn: far apart.
"""

from typing import Any

from expbench.core import checksum
from expbench.diagnose.worlds import TOY_WORDS, stream

SPECIAL = ("<pad>", "<bos>", "<eos>")
TEMPLATE = "{{ '<bos>' }}{% for message in messages %}{{ ' ' + message['content'] }}{% endfor %}"
HIDDEN = 64
HEAD_STEPS = 100
HEAD_RATE = 1e-2
HEAD_WORLDS = 8
"""Worlds a pre-training step reads."""


def build_toy(seed: int) -> Any:
    """Return the pre-trained toy as an `HFModel`; the same weights for the same seed.

    It has 2 layers, hidden size 64, 4 heads and an untied head.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from expbench.models.hf import HFModel

    tokenizer = build_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=64,
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = LlamaForCausalLM(config)
        pretrain_head(module, tokenizer, seed=seed)
    return HFModel(
        name="toy",
        module=module.eval(),  # type: ignore[no-untyped-call]
        tokenizer=tokenizer,
        fingerprint=checksum(["toy", 1, seed]),
        source="built-in",
        revision=None,
    )


def build_tokenizer() -> Any:
    """Return a tokenizer with one token a word and a chat template: begin token, then the words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: index for index, word in enumerate((*SPECIAL, *TOY_WORDS))}
    backend = Tokenizer(models.WordLevel(vocab=vocabulary, unk_token="<pad>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", 1)]
    )
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=backend,
        bos_token="<bos>",
        eos_token="<eos>",
        pad_token="<pad>",
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def pretrain_head(module: Any, tokenizer: Any, *, seed: int) -> None:
    """Train the head alone on `KEY k VAL v Q` and `KEY k Q v` of ever new worlds."""
    import torch
    from torch.nn import functional

    worlds = stream(seed=seed + 10_000)
    optimizer = torch.optim.AdamW(module.lm_head.parameters(), lr=HEAD_RATE)
    for _ in range(HEAD_STEPS):
        texts: list[str] = []
        for world in (next(worlds) for _ in range(HEAD_WORLDS)):
            texts += [e.summary for e in world.experience]
            texts += [f"{q.prompt} {q.target[0]}" for q in world.questions]
        batch = tokenizer(texts, padding=True, return_tensors="pt")
        ids_BT, mask_BT = batch["input_ids"], batch["attention_mask"]
        with torch.no_grad():
            hidden_BTD = module.model(input_ids=ids_BT, attention_mask=mask_BT).last_hidden_state
        logits_BTV = module.lm_head(hidden_BTD[:, :-1])
        targets_BT = ids_BT[:, 1:].masked_fill(mask_BT[:, 1:] == 0, -100)
        loss = functional.cross_entropy(logits_BTV.flatten(0, 1), targets_BT.flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    module.zero_grad(set_to_none=True)
