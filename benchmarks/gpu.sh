#!/usr/bin/env bash
# The benchmarks in bfloat16 on one GPU, in under eight minutes and without a network.
#
#   benchmarks/gpu.sh [OUT]
#
# Needs torch and transformers; neither TRL nor a fetched model: the model has SmolLM2-135M's shape and random weights,
# the rows are the generated ones. Answers then run to their limit. OUT (results/bench-gpu) gets JSON and a table.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-results/bench-gpu}
python=${PYTHON:-python3}
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false PYTHONPATH=$PWD
export CUBLAS_WORKSPACE_CONFIG=:4096:8
shared=(--study benchmarks/gpu.yaml --cache "$out/cache" --out "$out")
mkdir -p "$out"
timeout 60 "$python" benchmarks/bench_rollout.py "${shared[@]}" --rounds 3
timeout 120 "$python" benchmarks/bench_scaling.py "${shared[@]}" --rounds 3 --only mix group
timeout 90 "$python" benchmarks/bench_step.py "${shared[@]}" --rounds 3 --rivals grpo hargo
timeout 90 "$python" benchmarks/bench_step.py "${shared[@]}" --rounds 3 --profile
printf '# Figures\n\n%s\n' '<!-- figures: written by `make bench` --><!-- end of figures -->' > "$out/figures.md"
"$python" benchmarks/report.py --out "$out" --docs "$out/figures.md"
cat "$out/figures.md"
