#!/usr/bin/env bash
# Makes the demo checkpoint from nothing in DIRECTORY: tokenizer, weights, held-out set, results. Under 8 minutes on an
# H200.
#
# usage: reproduce.sh DIRECTORY [SEED [STEPS]]
# A tokenizer.json that is already in DIRECTORY is kept.
set -euo pipefail
out=$1 seed=${2:-1} steps=${3:-8000} here=$(dirname "${BASH_SOURCE[0]}")
export PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=false PYTHONDONTWRITEBYTECODE=1
mkdir -p "$out"
[[ -e $out/tokenizer.json ]] || python3 "$here/vocabulary.py" "$out"
python3 "$here/held_out.py" "$out/held_out.jsonl"
python3 "$here/train.py" "$out" --seed "$seed" --steps "$steps" --report 250 --seconds 520 --save "$out/saved"
python3 "$here/evaluate.py" "$out" "$out/held_out.jsonl" "$out/results.json"
python3 "$here/verify.py" "$out" "$out/held_out.jsonl"
