#!/usr/bin/env bash
# Everything that needs an accelerator, in one call: the tests marked gpu, then the cost of the contract there.
# usage: benchmarks/gpu.sh [PYTHON]; prints JSON lines after the tests' summary
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3}
PYTHONPATH=src "$python" -m pytest -m gpu -p no:cacheprovider tests/test_gpu.py
PYTHONPATH=src "$python" benchmarks/step_floor.py --device cuda --sentences 256
PYTHONPATH=src "$python" benchmarks/step_floor.py --device cuda --sentences 64
