"""Run folders for tests of import and export: small networks, trained for about a second to write letters backwards."""

import io
import random
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from sentencepiece import SentencePieceTrainer, sentencepiece_model_pb2

import calque
from calque.data.codecs import Codec, PieceCodec, WordCodec
from calque.data.vocabulary import BOS, EOS, SPECIALS, Vocabulary
from calque.experiment import DataSettings, DecodeSettings, Experiment, ModelSettings, TrainSettings
from calque.model import Model
from calque.run.folder import start_run
from calque.run.model_file import save_model, weights_of

WORDS = [f"w{n}" for n in range(12)]
PRE = "d = 32\nheads = 4\nencoder = pos -> repeat(2, tenc) -> norm\ndecoder = pos -> repeat(2, tdec) -> norm\n"
POST = (
    "d = 32\nheads = 4\nencoder = pos -> repeat(1, post(mh_dot_self_att(bias=yes)) -> post(ffl))\n"
    "decoder = pos -> repeat(2, post(mh_dot_self_att(bias=yes)) -> post(mh_dot_src_att(bias=yes)) -> post(ffl))\n"
)


def draw_lines(count: int, seed: int = 1, longest: int = 5) -> list[str]:
    """Lines of 1 to `longest` random words."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, longest))) for _ in range(count)]


def randomise(model: torch.nn.Module, seed: int = 1) -> None:
    """Random values for vectors too: a bias or a shift of zero hides faults."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(torch.randn_like(p) * 0.05)
            elif p.requires_grad and p.std() > 0.5:  # embeddings
                p.mul_(p.shape[1] ** -0.5 / p.std())


def train(model: Model, codec: Codec, updates: int = 100, target_codec: Codec | None = None) -> None:
    """Updates on lines and the same backwards."""
    target_codec = target_codec or codec
    optimiser = torch.optim.Adam(model.parameters(), lr=4e-3)
    draw = random.Random(2)
    for _ in range(updates):
        n = draw.randint(1, 5)
        lines = [draw.choices(WORDS, k=n) for _ in range(32)]
        source = torch.tensor([[*ids, EOS] for ids in codec.encode([" ".join(words) for words in lines])])
        target = torch.tensor([[*ids, EOS] for ids in target_codec.encode([" ".join(words[::-1]) for words in lines])])
        start = torch.full((len(lines), 1), BOS)
        logits = model(source, torch.cat([start, target[:, :-1]], 1))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def make_run(
    folder: Path,
    text: str,
    updates: int = 100,
    codec: Codec | None = None,
    tying: str = "three-way",
    bias: bool = True,
    target: Codec | None = None,
    decode: Mapping[str, Any] = MappingProxyType({}),
) -> Model:
    """A run folder of a text; the model, in evaluation mode. `target`: the codec of the target side, where it is another one;
    `decode`: keys of [decode] that have other values.
    """
    torch.manual_seed(1)
    codec = codec or WordCodec(Vocabulary(WORDS))
    target = target or codec
    model = calque.build(text, codec.size, target.size, tying=tying, output_bias=bias)
    randomise(model)
    with torch.random.fork_rng(devices=[]):
        train(model, codec, updates, target)
    experiment = Experiment(
        DataSettings(
            train=("source", "target"),
            valid=("source", "target"),
            subwords=codec.kind,
            joint=target is codec,
            codes="merges" * (codec.kind == "codes"),
        ),
        ModelSettings(text=model.checked.text, tying=tying, output_bias=bias),
        TrainSettings(max_updates=1),
        DecodeSettings(**{"max_length_factor": 0.0, "max_length_offset": 60, **decode}),
    )
    start_run(folder, experiment, model.checked, (codec, target))
    save_model(folder, model, weights_of(model), experiment, "none", {})
    return model.eval()


def piece_codec(words: list[str] = WORDS) -> PieceCodec:
    """A sentencepiece model in which every one of these words is a piece."""
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(words * 3),
        model_writer=model,
        model_type="word",
        vocab_size=len(words) + len(SPECIALS),
        pad_id=0,
        bos_id=1,
        eos_id=2,
        unk_id=3,
        minloglevel=3,
        num_threads=1,
    )
    described: Any = sentencepiece_model_pb2
    proto = described.ModelProto.FromString(model.getvalue())
    proto.trainer_spec.model_type = described.TrainerSpec.UNIGRAM  # whose training would cut words
    return PieceCodec(proto.SerializeToString(), "unigram")


def export_apart(run: Path, to: Path, form: str, *options: str) -> None:
    """Exports a run by the command, in a process of its own.

    The exporter reads the program of loops over positions, and stumbles over the comparison of shapes in the tests' own process.
    """
    command = [sys.executable, "-m", "calque", "export", str(run), "--to", form, "--out", str(to), *options]
    subprocess.run(command, check=True, capture_output=True)
