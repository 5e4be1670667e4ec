#!/usr/bin/env bash
# Everything that needs an accelerator, in one call within a time limit: tests, speeds, and cells of the papers' tables side by side.
#
#     MINUTES=25 DATA=corpora benchmarks/gpu.sh [PYTHON]
#
# What is finished is not done again, and a cell that was cut off is resumed: call it until it prints that all is done. Marks and cells are
# kept in WORK (runs/gpu). Figures become entries of the ledger, docs/results; with OUT=FOLDER they are also packed into
# FOLDER/results.tar.gz. WORKERS (4) cells are trained at a time. SMALL=1 makes every step tiny, and DEVICE=cpu leaves the tests
# out: so the script itself is tested without an accelerator.
set -uo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3}
minutes=${MINUTES:-25} data=$(realpath "${DATA:-data}") work=${WORK:-runs/gpu} device=${DEVICE:-cuda} workers=${WORKERS:-4}
small=${SMALL:-} docs=${DOCS:-docs}
end=$(($(date +%s) + minutes * 60))
export PYTHONPATH=src CALQUE_DATA=$data
mkdir -p "$work/done"
[[ -e $work/begun ]] || touch "$work/begun"
missing=0  # steps that are not finished

# The time that is left, less a minute for the ledger.
left() { echo $((end - $(date +%s) - 60)); }

# once NAME COMMAND...: runs it unless it has been finished before. It is asked to end when the time is over, and killed half a minute later.
once() {
    local name=$1
    shift
    [[ -e $work/done/$name ]] && return
    missing=$((missing + 1))
    (($(left) > 0)) || { echo "gpu: no time left for $name" >&2; return; }
    echo "gpu: $name" >&2
    timeout --signal=TERM --kill-after=30 "$(left)" "$@" > "$work/$name.out" 2> "$work/$name.err"
    local status=$?
    ((status)) && { echo "gpu: $name ended with status $status: $(tail -n 1 "$work/$name.err")" >&2; return; }
    touch "$work/done/$name"
    missing=$((missing - 1))
}

# Tests and speeds; entries are named after the device.
[[ $device == cuda ]] && once tests "$python" -m pytest -p no:cacheprovider tests/test_gpu.py tests/decode/test_accelerator.py
text=("$work/train.en" "$work/train.de")
for k in en de; do [[ -s $work/train.$k ]] || zcat "$data/multi30k/tok/train.$k.gz" > "$work/train.$k"; done
record() { [[ $small ]] || printf '%s\n' --record "$1"; }
amount() { if [[ $small ]]; then echo "$1"; else echo "$2"; fi; }
for sentences in $(amount 2 "64 256"); do
    once "step-floor-$sentences" "$python" benchmarks/step_floor.py --device "$device" --sentences "$sentences" \
        --repeats "$(amount 1 5)" $(record "step-floor-$device-$sentences")
done
for tokens in $(amount 128 "3072 16384"); do
    once "training-$tokens" "$python" benchmarks/training_ratio.py --like "${text[@]}" --device "$device" --batch-tokens "$tokens" \
        --updates "$(amount 1 20)" --rounds "$(amount 1 2)" --families transformer $(amount "" "aan rnmt-feed") \
        --precisions bfloat16 $(record "training-ratio-$device-$tokens")
done
once updates "$python" benchmarks/accelerator_training.py --like "${text[@]}" --device "$device" --updates "$(amount 1 30)" \
    $(amount "--families ssru --batch-tokens 64 --optimisers muon" "") $(record "accelerator-training-$device")
model=$(amount modern/bergamot-tiny domhan2018/transformer)
once decode "$python" -m calque bench decode "$model" --device "$device" --precision bfloat16 --batch "$(amount 2 128)" \
    --beam "$(amount 1 1,4,5)" --length "$(amount 3 25)" --sentences "$(amount 4 512)" --repeats "$(amount 1 5)" \
    $([[ $small ]] || printf '%s\n' --record "$docs/results/decode-$device-bfloat16-batch-128.json")
once graphs "$python" benchmarks/graphs.py --device "$device" --batches "$(amount 2 128)" --beams "$(amount 2 4)" \
    --repeats "$(amount 1 3)" $(amount "--families ssru" "") $(record "graphs-$device")

# Cells: a line each of paper, table, corpus and how it is trained. An entry of the ledger says the rest.
cells() {
    if [[ $small ]]; then
        echo "zhang2018 table2 multi30k --recipe multi30k-zhang2018 --updates 2 --set d=32 --set heads=4 --set n=1 --rows aan,aan-no-ffn --seeds 1"
        return
    fi
    cat << 'LINES'
you2020 table2 multi30k --recipe multi30k-you2020 --epochs 14 --set p=0.1 --seeds 3
zhang2018 table2 multi30k --recipe multi30k-zhang2018 --epochs 14 --set p=0.1 --set d=256 --set heads=4 --set n=3 --seeds 3
domhan2018 table3 multi30k --recipe multi30k-rnmt --epochs 14 --set p=0.2 --set d=256 --set n=2 --rows rnmt,rnmt-no-feed,rnn,rnn+mh --seeds 3
domhan2018 table4 multi30k --recipe multi30k-zhang2018 --epochs 14 --set p=0.2 --set d=256 --set n=2 --set train.lr=0.004 --rows transformer,cnn-relu+norm,cnn-relu+mh,cnn-relu+ff,cnn-glu+ff --seeds 3
domhan2018 table2 multi30k --recipe multi30k-zhang2018 --epochs 14 --set p=0.2 --set d=256 --set n=2 --set train.lr=0.004 --rows increasing,decreasing --seeds 3
luong2015 table1 multi30k --recipe multi30k-luong2015 --epochs 14 --set drop=0.2 --set d=256 --set n=2 --rows base,base+reverse,base+dropout,global,global+feed,local-p+feed --seeds 3
domhan2018 table1 envi --recipe multi30k-zhang2018 --epochs 14 --set p=0.1 --set d=512 --set n=6 --set train.batch_tokens=8192 --set train.lr=0.002 --rows transformer --seeds 1
LINES
}
while read -r -u 3 paper table corpus how; do
    out="$work/$paper-$table-$corpus"
    # shellcheck disable=SC2086 # options, one word each
    once "cells-$paper-$table-$corpus" "$python" -m calque reproduce train "$paper" "$table" --corpus "$corpus" $how \
        --set train.device="$device" --out "$out" --executor "local:$workers"
    # What is finished counts, also where the time was too short for all.
    compgen -G "$out/cells/*.json" > /dev/null && "$python" -m calque reproduce record "$out" --beside --docs "$docs" 2>> "$work/record.err"
done 3< <(cells)

if [[ ${OUT:-} ]]; then
    find "$docs/results" -type f -newer "$work/begun" -print0 | tar -czf "$OUT/results.tar.gz" --null -T -
fi
if ((missing)); then echo "gpu: $missing steps are not finished; the same call goes on" >&2; exit 1; fi
echo "gpu: all is done" >&2
