"""vLLM's side of `bench_rollout.py`, run by the Python of an environment that has vLLM and nothing of this project.

    PYTHON benchmarks/vllm_worker.py MODEL

Reads a line of JSON a turn, {prompts, new, samples, temperature}, and answers with the seconds it took.
"""

from __future__ import annotations

import json
import os
import sys
import time

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", f"0-{(os.cpu_count() or 1) - 1}")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")

from vllm import LLM, SamplingParams


def main() -> None:
    llm = LLM(sys.argv[1], dtype="float32", enforce_eager=True, max_model_len=2048, disable_log_stats=True)
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        how = SamplingParams(
            n=asked["samples"],
            temperature=asked["temperature"],
            max_tokens=asked["new"],
            min_tokens=asked["new"],
            ignore_eos=True,
            detokenize=False,
        )
        llm.reset_prefix_cache()
        began = time.perf_counter()
        llm.generate([{"prompt_token_ids": prompt} for prompt in asked["prompts"]], how, use_tqdm=False)
        print("step", json.dumps({"seconds": time.perf_counter() - began}), flush=True)


if __name__ == "__main__":
    main()
