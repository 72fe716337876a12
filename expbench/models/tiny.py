"""A tiny random Llama with a byte tokenizer, built without network, for tests.

Its head is drawn wide, so that the best token leads by far and rounding cannot change a greedy
choice; it writes noise.
"""

from typing import Any

SEED = 20260601
TEMPLATE = (
    "{{ '<bos>' }}{% for message in messages %}"
    "{{ '<' + message['role'] + '>' + message['content'] + '<end>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
)
SPECIAL = ("<pad>", "<bos>", "<eos>", "<end>", "<system>", "<user>", "<assistant>")


def build_tiny() -> tuple[Any, Any]:
    """Return (model in evaluation mode, tokenizer); the same weights at every call."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = build_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=[2, 3],
        pad_token_id=0,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        module = LlamaForCausalLM(config)
        with torch.no_grad():
            for weight in module.parameters():
                if weight.ndim == 2:
                    weight.normal_(0.0, 0.15)
            module.lm_head.weight.normal_(0.0, 1.0)
    return module.eval(), tokenizer  # type: ignore[no-untyped-call]


def build_tokenizer() -> Any:
    """Return a tokenizer with one token a byte, seven special tokens and a chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate((*SPECIAL, *letters))}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", 1)]
    )
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=backend,
        bos_token="<bos>",
        eos_token="<eos>",
        pad_token="<pad>",
        additional_special_tokens=list(SPECIAL[3:]),
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer
