#!/usr/bin/env bash
# Makes the demo checkpoint from nothing in DIRECTORY: tokenizer, weights, held-out set, results. Under 8 minutes on an
# H200.
#
# usage: reproduce.sh DIRECTORY [SEED [STEPS [SECONDS]]]
# A tokenizer.json that is already in DIRECTORY is kept. Training that is not done after SECONDS (520) ends with status
# 3; the same command goes on from there. DIRECTORY/training.log has every line of it.
set -euo pipefail
out=$1 seed=${2:-1} steps=${3:-8000} seconds=${4:-520} here=$(dirname "${BASH_SOURCE[0]}")
export PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=false PYTHONDONTWRITEBYTECODE=1
mkdir -p "$out"
[[ -e $out/tokenizer.json ]] || python3 "$here/vocabulary.py" "$out"
python3 "$here/held_out.py" "$out/held_out.jsonl"
resume=()
[[ ! -e $out/saved ]] || resume=(--resume "$out/saved")
python3 "$here/train.py" "$out" --seed "$seed" --steps "$steps" --report 250 --seconds "$seconds" --save "$out/saved" \
  "${resume[@]}" | tee -a "$out/training.log"
if ! tail -n 1 "$out/training.log" | grep -q '"finished": true'; then
  echo "reproduce.sh: not done yet; the same command goes on" >&2
  exit 3
fi
rm -rf "$out/saved"
python3 "$here/evaluate.py" "$out" "$out/held_out.jsonl" "$out/results.json"
python3 "$here/verify.py" "$out" "$out/held_out.jsonl"
