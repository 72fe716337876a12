"""Retrieval of past attempts as text, in the prompt; see README.md here."""

from expbench_methods.text_rag.method import TextRAG

METHOD = TextRAG
