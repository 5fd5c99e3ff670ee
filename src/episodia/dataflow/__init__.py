"""Algorithms as flows over runners, buffers and learners; engines say where these live."""

from episodia.dataflow.engines.engine import Call, Engine, Handle, Worker
from episodia.dataflow.engines.local_engine import LocalEngine
from episodia.dataflow.engines.thread_engine import ThreadEngine

__all__ = ["Call", "Engine", "Handle", "LocalEngine", "ThreadEngine", "Worker"]
