# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, no-any-return"
"""Kernels of a decoding step on an accelerator, in Triton: attention of one position, the best words, the best continuations.

Imported only where Triton is at hand. `calque.native.accelerator` calls them, and says what each computes.
"""

import triton
import triton.language as tl

LEAST = tl.constexpr(-(2**63))
"""A key below those of all numbers."""
PLACES = tl.constexpr(0x7FFFFFFF)
NOWHERE = tl.constexpr(-1e30)
"""The score of what a query may not see: finite, so that one that may see nothing takes the mean."""


@triton.jit
def _ordered(x, place):
    """Keys of float32 numbers in their order, of equals the first place before the others."""
    bits = (x + 0.0).to(tl.int32, bitcast=True)  # -0.0 and 0.0 are equal
    integers = tl.where(bits < 0, bits ^ PLACES, bits).to(tl.int64)
    return (integers << 32) | (place ^ PLACES).to(tl.int64)  # PLACES - place


@triton.jit
def _number(key):
    """The number that a key was made of."""
    high = (key >> 32).to(tl.int32)
    return tl.where(high < 0, high ^ PLACES, high).to(tl.float32, bitcast=True)


@triton.jit
def _place(key):
    """The place that a key was made of."""
    return (key & 0xFFFFFFFF) ^ PLACES


@triton.jit
def _own(
    query, keys, values, new_keys, new_values, positions, row, slot, real, of_keys, of_values, scale,
    key_next, key_slot, value_next, value_slot,
):  # fmt: skip
    """Where rows stand, and the highest score, the sum of weights and of contexts of their own keys and values alone.

    These are written into their own slots.
    """
    held = tl.load(positions + row, mask=real, other=0)
    key, value = tl.load(new_keys, mask=of_keys, other=0), tl.load(new_values, mask=of_values, other=0)
    # Heads that share a key write the same numbers.
    tl.store(keys + (held * key_next + slot * key_slot)[:, None], key, mask=of_keys)
    tl.store(values + (held * value_next + slot * value_slot)[:, None], value, mask=of_values)
    score = tl.sum(query.to(tl.float32) * key.to(tl.float32), 1) * scale
    return held, score, score * 0 + 1, value.to(tl.float32)


@triton.jit
def _compared(
    query, k, origin, blocked, row, real, held, t, slot, scale, origin_next, MOVES: tl.constexpr, BLOCKS: tl.constexpr
):
    """The scores of queries and keys; -inf for what does not belong to a row's past."""
    scores = tl.dot(query, tl.trans(k), input_precision="ieee") * scale
    seen = t[None, :] < held[:, None]
    if BLOCKS:
        hidden = tl.load(blocked + t, mask=t < tl.max(held, 0), other=0)
        scores = tl.where((hidden != 0)[None, :], NOWHERE, scores)
    if MOVES:
        whose = tl.load(origin + row[:, None] * origin_next + t[None, :], mask=seen & real[:, None], other=-1)
        seen = seen & (whose == slot[None, :])
    return tl.where(seen, scores, -float("inf"))


@triton.jit
def attend(
    q, keys, values, new_keys, new_values, origin, positions, blocked, out,
    per, group, length, scale, q_next, new_keys_next, new_values_next, origin_next, blocked_next, out_next,
    key_sentence, key_head, key_next, key_slot, value_sentence, value_head, value_next, value_slot,
    ROWS: tl.constexpr, KEY_ROOM: tl.constexpr, VALUE_ROOM: tl.constexpr, KEY: tl.constexpr, VALUE: tl.constexpr,
    SLOTS: tl.constexpr, BLOCK: tl.constexpr, APPENDS: tl.constexpr, MOVES: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """The queries of a sentence and a head. They are compared with all slots of its positions, of which each sees its own past."""
    sentence, head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    r, d, e = tl.arange(0, ROWS), tl.arange(0, KEY_ROOM)[None, :], tl.arange(0, VALUE_ROOM)[None, :]
    row, real, shared = sentence * per + r, r < per, head // group
    of_keys, of_values = real[:, None] & (d < KEY), real[:, None] & (e < VALUE)
    query = tl.load(q + row[:, None] * q_next + head * KEY + d, mask=of_keys, other=0)
    keys, blocked = keys + sentence * key_sentence + shared * key_head + d, blocked + sentence * blocked_next
    values += sentence * value_sentence + shared * value_head + e
    if APPENDS:
        new_keys += row[:, None] * new_keys_next + shared * KEY + d
        new_values += row[:, None] * new_values_next + shared * VALUE + e
        held, highest, total, context = _own(
            query, keys, values, new_keys, new_values, positions, row, r, real, of_keys, of_values, scale,
            key_next, key_slot, value_next, value_slot,
        )  # fmt: skip
    else:
        held, highest = tl.full((ROWS,), 0, tl.int64) + length, tl.full((ROWS,), NOWHERE, tl.float32)
        total, context = tl.zeros((ROWS,), tl.float32), tl.zeros((ROWS, VALUE_ROOM), tl.float32)
    last, begin = tl.max(held, 0) * SLOTS, sentence * 0
    while begin < last:  # a range would need an integer, which an interpreted kernel has not
        c = begin + tl.arange(0, BLOCK)
        t, slot, inside = c // SLOTS, c % SLOTS, (c < last)[:, None]
        k = tl.load(keys + (t * key_next + slot * key_slot)[:, None], mask=inside & (d < KEY), other=0)
        scores = _compared(query, k, origin, blocked, row, real, held, t, slot, scale, origin_next, MOVES, BLOCKS)
        top = tl.maximum(highest, tl.max(scores, 1))
        weights, kept, highest = tl.exp(scores - top[:, None]), tl.exp(highest - top), top
        v = tl.load(values + (t * value_next + slot * value_slot)[:, None], mask=inside & (e < VALUE), other=0)
        total = total * kept + tl.sum(weights, 1)
        context = context * kept[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        begin += BLOCK
    out += row[:, None] * out_next + head * VALUE + e
    tl.store(out, (context / total[:, None]).to(out.dtype.element_ty), mask=of_values)


@triton.jit
def _logits(logits, bias, forbidden, row, next, i, words, per, BIASED: tl.constexpr, FORBIDS: tl.constexpr):
    """Those of a row at the places i; -inf beyond the words, and for words that are forbidden."""
    inside = i < words
    x = tl.load(logits + row * next + i, mask=inside, other=-float("inf")).to(tl.float32)
    if BIASED:
        x += tl.load(bias + i, mask=inside, other=0).to(tl.float32)
    if FORBIDS:
        x = tl.where(tl.load(forbidden + (row // per) * words + i, mask=inside, other=1) != 0, -float("inf"), x)
    return x


@triton.jit
def best_of_chunks(
    logits, bias, forbidden, best, highest, sums, next, words, first, end, reward, per,
    CHUNKS: tl.constexpr, CHUNK: tl.constexpr, BIASED: tl.constexpr, FORBIDS: tl.constexpr,
):  # fmt: skip
    """Of a part of a row the best word of each chunk; the maximum of all, and the sum of their exponentials."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    chunk = part * CHUNKS + tl.arange(0, CHUNKS)
    i = chunk[:, None] * CHUNK + tl.arange(0, CHUNK)[None, :]
    x = _logits(logits, bias, forbidden, row, next, i, words, per, BIASED, FORBIDS)
    top = tl.max(tl.max(x, 1), 0)
    place = row * tl.num_programs(1) + part
    tl.store(highest + place, top)
    tl.store(sums + place, tl.sum(tl.sum(tl.exp(x - tl.where(top == -float("inf"), 0.0, top)), 1), 0))
    x = tl.where(i >= first, tl.where(i == end, x - reward, x), -float("inf"))
    tl.store(best + row * tl.num_programs(1) * CHUNKS + chunk, tl.max(x, 1))


@triton.jit
def best_of_rows(
    chunks, highest, sums, logits, bias, forbidden, values, words, ends, totals,
    next, size, first, end, reward, per, parts, count,
    N: tl.constexpr, N_ROOM: tl.constexpr, ROOM: tl.constexpr, PARTS_ROOM: tl.constexpr, CHUNK: tl.constexpr,
    BIASED: tl.constexpr, FORBIDS: tl.constexpr,
):  # fmt: skip
    """The N best words of a row, which are in the N chunks with the highest maxima; the logit of the end symbol; log sum exp."""
    row = tl.program_id(0).to(tl.int64)
    j, n = tl.arange(0, ROOM), tl.arange(0, N_ROOM)
    keys = tl.where(j < count, _ordered(tl.load(chunks + row * count + j, mask=j < count, other=0), j), LEAST)
    chosen = n.to(tl.int64) * 0 + size
    for k in tl.static_range(N):
        best = tl.max(keys, 0)
        chosen = tl.where(n == k, _place(best), chosen)
        keys = tl.where(keys == best, LEAST, keys)
    i = chosen[:, None] * CHUNK + tl.arange(0, CHUNK)[None, :]
    x = _logits(logits, bias, forbidden, row, next, i, size, per, BIASED, FORBIDS)
    found = tl.where((i >= first) & (i < size), _ordered(tl.where(i == end, x - reward, x), i), LEAST)
    for k in tl.static_range(N):
        best = tl.max(tl.max(found, 1), 0)
        tl.store(values + row * N + k, _number(best))
        tl.store(words + row * N + k, _place(best))
        found = tl.where(found == best, LEAST, found)
    p = tl.arange(0, PARTS_ROOM)
    tops = tl.load(highest + row * parts + p, mask=p < parts, other=-float("inf"))
    shares = tl.load(sums + row * parts + p, mask=p < parts, other=0)
    top = tl.max(tops, 0)
    tl.store(totals + row, top + tl.log(tl.sum(shares * tl.exp(tops - top), 0)))
    last = end + tl.arange(0, 1)
    tl.store(
        ends + row + tl.arange(0, 1), _logits(logits, bias, forbidden, row, next, last, size, per, BIASED, FORBIDS)
    )


@triton.jit
def continued(
    values, words, live, total, logp, parents, chosen, beam, each,
    N: tl.constexpr, ROOM: tl.constexpr, TOTAL: tl.constexpr,
):  # fmt: skip
    """The N best continuations of a sentence's hypotheses, among `each` of every one."""
    sentence = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, ROOM)
    inside, row = j < beam * each, sentence * beam + j // each
    first = sentence * beam * each
    x = tl.load(values + first + j, mask=inside, other=-float("inf"))
    if TOTAL:
        x -= tl.load(total + row, mask=inside, other=0)
    x += tl.load(live + row, mask=inside, other=0)
    keys = tl.where(inside, _ordered(x, j), LEAST)
    for k in tl.static_range(N):
        best = tl.max(keys, 0)
        place = _place(best)
        tl.store(logp + sentence * N + k, _number(best))
        tl.store(parents + sentence * N + k, place // each)
        tl.store(chosen + sentence * N + k, tl.load(words + first + place))
        keys = tl.where(keys == best, LEAST, keys)
