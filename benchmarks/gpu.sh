#!/usr/bin/env bash
# The benchmarks in bfloat16 on one GPU, in under eight minutes and without a network.
#
#   benchmarks/gpu.sh [OUT]
#
# Needs torch, transformers, pydantic, typer, rich and matplotlib; neither TRL nor a fetched model: the model has
# SmolLM2-135M's shape and random weights, the rows are the generated ones. Answers then run to their limit.
# OUT (results/bench-gpu) gets JSON and a table.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-results/bench-gpu}
python=${PYTHON:-python3}
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false PYTHONPATH=$PWD
export CUBLAS_WORKSPACE_CONFIG=:4096:8
shared=(--study "${STUDY:-benchmarks/gpu.yaml}" --cache "$out/cache" --out "$out")
mkdir -p "$out"
status=0
run() { # seconds, script, its arguments: what fails or takes longer is said, and the others still run
  local limit=$1 name=$2
  shift 2
  timeout "$limit" "$python" "benchmarks/$name.py" "${shared[@]}" --rounds 3 "$@" || {
    echo "$name: no figures (status $?)" >&2
    status=1
  }
}
run 60 bench_rollout
run 110 bench_scaling --only mix group
run 80 bench_memory --groups 4 --tokens 1024 8192
run 80 bench_step --rivals grpo hargo
run 90 bench_step --profile
printf '# Figures\n\n%s\n' '<!-- figures: written by `make bench` --><!-- end of figures -->' > "$out/figures.md"
"$python" benchmarks/report.py --out "$out" --docs "$out/figures.md"
cat "$out/figures.md"
exit $status
